-- The lanes that have jobs, as the sets in which their jobs wait.
--
-- KEYS  1 base
-- Reply the sets, named below the base
-- @splice lib/lanes

local sets = {}
for _, group in ipairs(lanes_with_jobs()) do
  sets[#sets + 1] = 'g:' .. group .. ':pending'
end
return sets
