-- Pauses a schedule: it stands in no set until it is resumed.
--
-- KEYS  1 base
-- ARGV  1 name  2 why, or ''
-- Reply 1, or 0 where there is no such schedule or it is paused already
-- @splice lib/cadence

local name = ARGV[1]
if call('EXISTS', record_key(name)) == 0 or call('HEXISTS', record_key(name), 'paused') == 1 then
  return 0
end
call('HSET', record_key(name), 'paused', ARGV[2] ~= '' and ARGV[2] or '1')
call('SADD', base .. 'schedules', name)
call('ZREM', cadence_set(name), name)
return 1
