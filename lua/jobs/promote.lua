-- Moves due jobs from the schedule to their lane or the flat set.
--
-- KEYS  1 base
-- ARGV  1 at most so many
-- Reply how many were moved
-- @splice lib/promote

local now = server_ms()
local moved = promote_due(tonumber(ARGV[1]), now)
finish(now)
return moved
