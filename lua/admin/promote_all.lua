-- Makes jobs claimable that were scheduled when it began, a step at a time.
--
-- KEYS  1 base
-- ARGV  1 ledger slot  2 ledger number  3 look at most at so many  4 score  5 member (see lib/walk)
--       6 take at most so many  7 when it began (Unix ms)  8 the smallest id that is not meant
--       9.. the set to go through, below the base: schedule
-- Reply 1 how many were promoted  2 how many sets are done  3 score, 4 member to go on behind
-- Errors EMQOLD
-- @splice lib/walk
-- @splice lib/promote

local began, bound = tonumber(ARGV[7]), ARGV[8]

local reply, taken = walk(9, function(id, _, now)
  local row = read_row(id, 'started_at')
  -- What was claimed since it began has been put back for its next attempt.
  if not sorts_before(id, bound) or (row and (whole(row[2]) or 0) > began) then
    return false
  end
  return promote_job(id, now)
end, finish)
ring_wake(taken)
return reply
