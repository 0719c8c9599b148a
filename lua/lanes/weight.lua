-- Sets how many jobs a lane gives in one turn.
--
-- KEYS  1 base
-- ARGV  1 lane  2 how many, or '' for one
-- Reply 1
-- @splice lib/settings

set_lane_weight(ARGV[1], ARGV[2])
return 1
