-- Bounds how many jobs of a lane are in hand at once, over all workers. Those in hand stay.
--
-- KEYS  1 base
-- ARGV  1 lane  2 how many, or '' for no limit
-- Reply 1
-- @splice lib/settings

set_lane_limit(ARGV[1], ARGV[2])
return 1
