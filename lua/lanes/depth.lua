-- How many jobs wait in a lane.
--
-- KEYS  1 base
-- ARGV  1 lane
-- Reply how many
-- @splice lib/ring

return lane_depth(ARGV[1])
