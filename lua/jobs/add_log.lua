-- Adds a line to a job's log.
--
-- KEYS  1 base
-- ARGV  1 id  2 line  3 keep only so many of the newest, 0 keeps all
-- Reply how many lines the log has; -1 where there is no such job
-- @splice lib/base

local id, keep = ARGV[1], tonumber(ARGV[3])
if not read_row(id) then
  return -1
end
local lines = call('RPUSH', row_key(id) .. ':logs', ARGV[2])
if keep > 0 and lines > keep then
  call('LTRIM', row_key(id) .. ':logs', -keep, -1)
  return keep
end
return lines
