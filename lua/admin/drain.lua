-- Removes waiting jobs that were minted before a drain began, a bounded number of them.
--
-- KEYS  1 base
-- ARGV  1 look at most at so many  2 the smallest id that is not meant
--       3 '1' where the schedule is meant too
-- Reply 1 how many were removed  2 1 where there may be more, else 0
-- @splice lib/drain
-- @splice lib/lanes

local removed, budget = drain_set(base .. 'pending', tonumber(ARGV[1]), ARGV[2])
local function go_on(set)
  local n
  n, budget = drain_set(set, budget, ARGV[2])
  removed = removed + n
end

for _, group in ipairs(lanes_with_jobs()) do
  go_on(lane_key(group))
  settle_ring(group)
end
if ARGV[3] == '1' then
  go_on(base .. 'schedule')
end
if removed > 0 then
  announce('drained', '', 'removed', removed)
end
return {removed, budget <= 0 and removed > 0 and 1 or 0}
