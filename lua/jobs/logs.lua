-- The log of a job, or of one that ended while its outcome record lives.
--
-- KEYS  1 base
-- ARGV  1 id  2 answer only so many of the newest lines, 0 all  3 cut each after so many bytes, 0 not
-- Reply 1 how many there are  2 the lines, oldest first; 0 where there is no such job
-- @splice lib/base

local row = row_key(ARGV[1])
if not read_row(ARGV[1]) and call('EXISTS', row .. ':outcome') == 0 then
  return 0
end
local newest, longest = tonumber(ARGV[2]), tonumber(ARGV[3])
local lines = call('LRANGE', row .. ':logs', newest > 0 and -newest or 0, -1)
if longest > 0 then
  for i, line in ipairs(lines) do
    lines[i] = string.sub(line, 1, longest)
  end
end
return {call('LLEN', row .. ':logs'), lines}
