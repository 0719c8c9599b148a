-- Ends a schedule. Its occurrences stay.
--
-- KEYS  1 base
-- ARGV  1 name  2 cancel only if it came from this source, '' for any
-- Reply 1, or 0 where there is no such schedule
-- @splice lib/cadence

local name, source = ARGV[1], ARGV[2]
if source ~= '' and call('HGET', record_key(name), 'source') ~= source then
  return 0
end
call('ZREM', base .. 'repeat', name)
call('ZREM', base .. 'cron', name)
call('SREM', base .. 'schedules', name)
return call('UNLINK', record_key(name))
