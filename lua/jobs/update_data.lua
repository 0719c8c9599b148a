-- Replaces the payload of a job that is not in hand.
--
-- KEYS  1 base
-- ARGV  1 id  2 payload
-- Reply 1, or 0 where there is no such job
-- Errors EMQSTATE a worker holds the job, under another payload (nothing is changed)
-- @splice lib/base

local id, payload = ARGV[1], ARGV[2]
local row = read_row(id, 'payload')
if not row then
  return 0
end
if row[2] == payload then
  -- Also where the call is repeated and a worker has claimed the job since.
  return 1
end
if call('ZSCORE', base .. 'active', id) then
  return redis.error_reply('EMQSTATE a worker holds the job; its payload stays as it is')
end
call('HSET', row_key(id), 'payload', payload)
return 1
