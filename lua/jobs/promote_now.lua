-- Lets a scheduled job be claimed at once.
--
-- KEYS  1 base
-- ARGV  1 id
-- Reply 1, or 0 where there is no such job
-- Errors EMQSTATE the job is not scheduled
-- @splice lib/place
-- @splice lib/announce

local id = ARGV[1]
local row = read_row(id, 'group', 'priority')
if not row then
  return 0
end
if call('ZREM', base .. 'schedule', id) == 0 then
  return redis.error_reply('EMQSTATE not scheduled')
end
call('HSET', row_key(id), 'state', 'pending', 'since', server_ms())
place(id, row[2], row[3])
ring_wake(1)
announce('promoted', id, 'lane', row[2])
return 1
