-- Removes waiting jobs that were minted before a drain began, a bounded number of them.
--
-- KEYS  1 base
-- ARGV  1 look at most at so many  2 the smallest id that is not meant
--       3 '1' where the schedule is meant too
-- Reply 1 how many were removed  2 1 where there may be more, else 0
-- @splice lib/release
-- @splice lib/lanes

local budget, bound = tonumber(ARGV[1]), ARGV[2]
local sets = {base .. 'pending'}
for _, group in ipairs(lanes_with_jobs()) do
  sets[#sets + 1] = lane_key(group)
end
if ARGV[3] == '1' then
  sets[#sets + 1] = base .. 'schedule'
end

local removed = 0
local function answer(more)
  if removed > 0 then
    announce('drained', '', 'removed', removed)
  end
  return {removed, more}
end

for _, set in ipairs(sets) do
  local skip = 0
  while true do
    local page = call('ZRANGE', set, skip, skip + math.min(budget, 100) - 1)
    if #page == 0 then
      break
    end
    for _, id in ipairs(page) do
      if id < bound then
        forget(id)
        call('ZREM', set, id)
        removed = removed + 1
      else
        skip = skip + 1
      end
    end
    budget = budget - #page
    if budget <= 0 then
      return answer(removed > 0 and 1 or 0)
    end
  end
end
return answer(0)
