-- Removes waiting jobs of a lane that were minted before a drain began, a bounded number of them.
--
-- KEYS  1 base
-- ARGV  1 look at most at so many  2 the smallest id that is not meant  3 lane
-- Reply 1 how many were removed  2 1 where there may be more, else 0
-- @splice lib/drain

local removed, budget = drain_set(lane_key(ARGV[3]), tonumber(ARGV[1]), ARGV[2])
-- Members without a row went without their lane's notice.
settle_ring(ARGV[3])
return {removed, budget <= 0 and removed > 0 and 1 or 0}
