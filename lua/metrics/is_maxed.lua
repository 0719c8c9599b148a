-- Whether the queue may start a job now: a look, for peers that ask before they claim.
--
-- KEYS  1 base
-- Reply 1
-- Errors EMQRATE as many jobs are in hand, or have started in the window, as the queue allows
-- @splice lib/limits

if read_limits(server_ms()).room <= 0 then
  return redis.error_reply('EMQRATE the queue is at its limit')
end
return 1
