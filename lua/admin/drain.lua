-- Removes waiting jobs that were minted before a bound, a step at a time.
--
-- KEYS  1 base
-- ARGV  1 ledger slot  2 ledger number  3 look at most at so many  4 score  5 member (see lib/walk)
--       6 take at most so many  7 the smallest id that is not meant
--       8.. the sets to go through, below the base
-- Reply 1 how many were removed  2 how many sets are done  3 score, 4 member to go on behind
-- Errors EMQOLD
-- @splice lib/walk
-- @splice lib/forget

local bound = ARGV[7]

local reply, taken = walk(8, function(id, set)
  -- A job in hand that a stock peer has left in a second set is not waiting.
  if not sorts_before(id, bound) or call('ZSCORE', base .. 'active', id) then
    return false
  end
  forget(id)
  call('ZREM', set, id)
  return true
end)
-- Members without a row tell of no lane. Those sets that the walk has not come to have time.
for i = 8, math.min(#ARGV, 8 + (reply[2] or 0)) do
  local group = string.match(ARGV[i], '^g:(.*):pending$')
  if group then
    settle_ring(group)
  end
end
if taken > 0 then
  announce('drained', '', 'removed', taken)
end
return reply
