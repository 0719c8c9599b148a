-- Returns jobs of one lane whose lease has lapsed to that lane; their token stays.
--
-- KEYS  1 base
-- ARGV  1 at most so many  2 lane  3 keep outcome records for so many ms  4 keep at most so many
-- Reply how many were returned
-- @splice lib/recover

-- The lapsed jobs of other lanes are passed over, so the look is bounded apart from the yield.
local LOOK = 500

local keep = {ms = tonumber(ARGV[3]), max = tonumber(ARGV[4]), dead_ms = 0}
local now = server_ms()
local recovered = recover_lapsed(tonumber(ARGV[1]), 0, keep, now, ARGV[2], LOOK)
finish(now)
return recovered
