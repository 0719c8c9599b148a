-- Fires one tick of a schedule: admits its occurrence and moves it to its next run, in one step,
-- only if its next run is still the one that the caller saw. Whoever comes second does nothing.
--
-- KEYS  1 base
-- ARGV  1 name  2 the score seen  3 the next run (Unix ms), or '' where it is over  4 a minted id
-- Reply 1 fired; 0 somebody else did, or it was paused, changed or cancelled; -1 the id met a row
--       and has to be minted again
-- @splice lib/cadence
-- @splice lib/place
-- @splice lib/stats
-- @splice lib/announce

local name, seen, at, id = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]
local set = cadence_set(name)
local score = call('ZSCORE', set, name)
if not score or tonumber(score) ~= seen then
  return 0
end
local record = call('HMGET', record_key(name), 'template', 'lane', 'priority')
if not record[1] then
  call('ZREM', set, name)
  return 0
end
if call('EXISTS', row_key(id)) == 1 then
  return -1
end
local group, priority = record[2], record[3] or '0'
-- First of all writes: where a foreign key of another type is in the way, nothing has happened.
place(group, priority, id)
call('HSET', row_key(id), 'state', 'pending', 'attempts', '0', 'payload', record[1], 'schedule', name)
if group then
  call('HSET', row_key(id), 'group', group)
end
if priority ~= '0' then
  call('HSET', row_key(id), 'priority', priority)
end
ring_wake(1)
count('enqueued', 1)
finish(server_ms())
announce('enqueued', id, 'lane', group, 'schedule', name)
if at == '' then
  call('ZREM', set, name)
else
  call('ZADD', set, at, name)
end
call('HINCRBY', record_key(name), 'fired', 1)
call('HSET', record_key(name), 'last_at', seen, 'last_job', id)
return 1
