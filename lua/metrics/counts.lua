-- How many jobs are in each state, and how many ended; and a page of the lanes that jobs may wait in.
--
-- KEYS  1 base
-- ARGV  1 '' or the place in the lanes to go on from
-- Reply 1 the place to go on from, '' at the end
--       2 pending in no lane, active, scheduled, dead, completed, failed
--       3 lanes  4 how many wait in each
-- @splice lib/figures
-- @splice lib/tidy

local LANES = 100

local names, _, place = lanes_from(ARGV[1], LANES, BESIDE_RING)
return tidied({place, job_counts(), names, depths_of(names)})
