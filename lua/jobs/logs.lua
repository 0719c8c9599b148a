-- The log of a job, or of one that ended while its outcome record lives.
--
-- KEYS  1 base
-- ARGV  1 id
-- Reply the lines, oldest first; 0 where there is no such job
-- @splice lib/base

local row = row_key(ARGV[1])
if not read_row(ARGV[1]) and call('EXISTS', row .. ':outcome') == 0 then
  return 0
end
return call('LRANGE', row .. ':logs', 0, -1)
