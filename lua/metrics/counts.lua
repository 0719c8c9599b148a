-- How many jobs are in each state, and how many ended.
--
-- KEYS  1 base
-- Reply pending (every lane included), active, scheduled, dead, completed, failed
-- @splice lib/figures

local _, depths = lanes_with_jobs()
return count_jobs(depths)
