-- Moves a job that waits, in the schedule or for a claim, to another time.
--
-- KEYS  1 base
-- ARGV  1 id  2 Unix ms
-- Reply 1, or 0 where there is no such job
-- Errors EMQSTATE the job does not wait
-- @splice lib/sound
-- @splice lib/place
-- @splice lib/park
-- @splice lib/announce

refuse_foreign(JOB_SETS)
local id = ARGV[1]
local row = read_row(id, 'group')
if not row then
  return 0
end
if not call('ZSCORE', base .. 'schedule', id) and not unplace(id, row[2] or nil) then
  return redis.error_reply('EMQSTATE not waiting')
end
call('HSET', row_key(id), 'state', 'scheduled')
park(id, ARGV[2])
announce('scheduled', id, 'lane', row[2], 'at', ARGV[2])
return 1
