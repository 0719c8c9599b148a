-- @splice lib/release

-- Removes the jobs of a set that were minted before `bound`, looking at no more than `budget` of
-- them. Answers how many were removed, and what is left of the budget.
local function drain_set(set, budget, bound)
  local removed, kept = 0, 0
  while budget > 0 do
    local page = call('ZRANGE', set, kept, kept + math.min(budget, 100) - 1)
    if #page == 0 then
      break
    end
    for _, id in ipairs(page) do
      if id < bound then
        forget(id)
        call('ZREM', set, id)
        removed = removed + 1
      else
        kept = kept + 1
      end
    end
    budget = budget - #page
  end
  return removed, budget
end
