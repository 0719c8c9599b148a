-- Notes a job's progress and publishes it.
--
-- KEYS  1 base
-- ARGV  1 id  2 progress
-- Reply 1, or 0 where there is no such job
-- @splice lib/announce

if not read_row(ARGV[1]) then
  return 0
end
call('HSET', row_key(ARGV[1]), 'progress', ARGV[2])
announce('progress', ARGV[1], 'progress', ARGV[2])
return 1
