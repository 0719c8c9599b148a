-- Takes a worker that has ended off the list.
--
-- KEYS  1 base
-- ARGV  1 name
-- Reply 1, or 0 where it was not on the list
-- @splice lib/workers

call('ZREM', base .. 'workers', ARGV[1])
return call('UNLINK', base .. 'worker:' .. ARGV[1])
