-- Registers a schedule, or replaces one. A replaced schedule keeps whether it is paused and what it
-- has fired; it keeps its next run where its cadence is the same.
--
-- KEYS  1 base
-- ARGV  1 name  2 'new' or 'replace'  3 next run (Unix ms), or '' where it is over
--       4 the cadence as one text  5.. field, value
-- Reply 'registered', 'exists' (nothing changed) or 'replaced'
-- @splice lib/cadence

local name, mode, at, cadence = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local key = record_key(name)
local exists = call('EXISTS', key) == 1
if exists and mode == 'new' then
  return 'exists'
end
local kept = exists and call('HMGET', key, 'paused', 'fired', 'last_at', 'last_job', 'cadence') or {}
if exists and kept[5] == cadence then
  at = call('ZSCORE', cadence_set(name), name) or at
end
call('ZREM', base .. 'repeat', name)
call('ZREM', base .. 'cron', name)
call('DEL', key)
call('HSET', key, 'cadence', cadence, unpack(ARGV, 5))
for i, field in ipairs({'paused', 'fired', 'last_at', 'last_job'}) do
  if kept[i] then
    call('HSET', key, field, kept[i])
  end
end
call('SADD', base .. 'schedules', name)
if at ~= '' and not kept[1] then
  call('ZADD', cadence_set(name), at, name)
end
return exists and 'replaced' or 'registered'
