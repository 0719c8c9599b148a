-- Removes jobs that ended before a time, a step at a time.
--
-- KEYS  1 base
-- ARGV  1 ledger slot  2 ledger number  3 look at most at so many  4 score  5 member (see lib/walk)
--       6 take at most so many  7 the state that is meant: dead completed cancelled  8 Unix ms
--       9.. the set to go through, below the base: dead or outcomes
-- Reply 1 how many were removed  2 how many sets are done  3 score, 4 member to go on behind
-- Errors EMQOLD
-- @splice lib/walk
-- @splice lib/forget
-- @splice lib/outcome

local state, before = ARGV[7], tonumber(ARGV[8])

local reply, taken = walk(9, function(id, set)
  local key = row_key(id) .. (state == 'dead' and '' or ':outcome')
  local row = try('HMGET', key, 'state', 'finished_at')
  if not row.err and not row[1] then
    -- Nothing stands behind the member; an outcome record may have ended just now.
    call('ZREM', set, id)
    return false
  end
  -- A stock peer buries without a time; such a job counts as old.
  if row.err or row[1] ~= state or (whole(row[2]) or 0) >= before then
    return false
  end
  if state == 'dead' then
    forget(id)
  else
    forget_outcome(id)
  end
  return true
end)
if taken > 0 then
  announce('cleaned', '', 'state', state, 'removed', taken)
end
return reply
