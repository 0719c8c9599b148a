#!lua flags=allow-oom
-- Tells a worker to be quiet, to go on, or to stop. It hears of it on its next beat.
--
-- KEYS  1 base
-- ARGV  1 name  2 'quiet', 'stop', or '' to go on
-- Reply 1, or 0 where there is no such worker
-- @splice lib/workers

local key = base .. 'worker:' .. ARGV[1]
if call('EXISTS', key) == 0 then
  return 0
end
call('HSET', key, 'told', ARGV[2])
return 1
