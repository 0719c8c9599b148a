-- Resumes a paused schedule at a next run.
--
-- KEYS  1 base
-- ARGV  1 name  2 next run (Unix ms), or '' where it is over
-- Reply 1, or 0 where it is not paused
-- @splice lib/cadence

local name, at = ARGV[1], ARGV[2]
if call('HDEL', record_key(name), 'paused') == 0 then
  return 0
end
if at ~= '' then
  call('ZADD', cadence_set(name), at, name)
end
return 1
