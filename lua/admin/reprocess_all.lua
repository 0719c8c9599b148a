-- Brings jobs back that were dead when it began, a step at a time.
--
-- KEYS  1 base
-- ARGV  1 ledger slot  2 ledger number  3 look at most at so many  4 score  5 member (see lib/walk)
--       6 take at most so many  7 when it began (Unix ms); what died later stays
--       8.. the set to go through, below the base: dead
-- Reply 1 how many came back  2 how many sets are done  3 score, 4 member to go on behind
-- Errors EMQOLD
-- @splice lib/walk
-- @splice lib/reprocess

local began = tonumber(ARGV[7])

local reply, taken = walk(8, function(id, _, now)
  local row = read_row(id, 'finished_at')
  if row and (whole(row[2]) or 0) > began then
    return false
  end
  return reprocess_job(id, now) == 'done'
end, finish)
ring_wake(taken)
return reply
