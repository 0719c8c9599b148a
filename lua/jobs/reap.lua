-- Returns jobs whose lease has lapsed to their lane or the flat set; their token stays, and no
-- limit buries them.
--
-- KEYS  1 base
-- ARGV  1 at most so many  2 keep outcome records for so many ms  3 keep at most so many
-- Reply how many were returned
-- @splice lib/recover

local keep = {ms = tonumber(ARGV[2]), max = tonumber(ARGV[3]), dead_ms = 0}
local now = server_ms()
local recovered = recover_lapsed(tonumber(ARGV[1]), 0, keep, now)
finish(now)
return recovered
