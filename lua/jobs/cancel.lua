-- Cancels a job: at once where it waits; where it is in hand, its worker hears of it on its beat.
--
-- KEYS  1 base
-- ARGV  1 id  2 reason  3 keep the outcome record for so many ms  4 keep at most
-- Reply 'cancelled', 'asked' (its worker was told), or 'gone'
-- Errors EMQSTATE the job is dead, or a flow's parent
-- @splice lib/outcome

local id, reason = ARGV[1], ARGV[2]
local row = read_row(id, 'group', 'unique')
if not row then
  return 'gone'
end
if call('ZSCORE', base .. 'active', id) then
  call('HSET', row_key(id), 'cancel', reason)
  call('HSET', base .. 'cancels', id, reason)
  return 'asked'
end
if call('ZREM', base .. 'schedule', id) == 0 and not unplace(id, row[2] or nil) then
  return redis.error_reply('EMQSTATE not waiting')
end
local now = server_ms()
conclude_cancelled(id, row[3], reason, {ms = tonumber(ARGV[3]), max = tonumber(ARGV[4])}, now)
write_stats(now)
return 'cancelled'
