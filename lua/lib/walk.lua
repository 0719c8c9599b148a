-- A bounded step of a walk over sorted sets, each in its order. A step goes on behind the place where
-- the one before it ended: a score and a member, which need not be there any more. So what leaves
-- the sets meanwhile hides nothing, and what comes back to where the walk has been is not met again.
--
-- ARGV of every walk
--       1 ledger slot  2 ledger number  3 look at most at so many
--       4 score, 5 member behind which to begin in the first set, or '', ''
--       6 take at most so many
-- Reply 1 how many jobs were taken  2 how many sets are done  3 score, 4 member to go on behind
-- @splice lib/behind
-- @splice lib/ledger

-- Walks the sets that ARGV names from `first` on, below the base. `visit` is called with an id, its
-- set and the time, and answers whether it took the job; then `finish` with the time, where given.
-- Answers the reply, and how many were taken.
local function walk(first, visit, finish)
  local now = server_ms()
  local noted, refused = ledger_recall(now)
  if refused then
    return refused, 0
  end
  if noted then
    return cjson.decode(noted), 0
  end
  local left, score, member, most = tonumber(ARGV[3]), ARGV[4], ARGV[5], tonumber(ARGV[6])
  local taken, done = 0, 0
  for i = first, #ARGV do
    local set, page = base .. ARGV[i], {}
    if left > 0 and call('TYPE', set).ok == 'zset' then
      local rank = score == '' and 0 or rank_behind(set, score, member)
      page = call('ZRANGE', set, rank, rank + left - 1, 'WITHSCORES')
    end
    for j = 1, #page, 2 do
      if taken < most and visit(page[j], set, now) then
        taken = taken + 1
      end
    end
    left = left - #page / 2
    if left <= 0 then
      if #page > 0 then
        score, member = page[#page], page[#page - 1]
      end
      break
    end
    -- A set without jobs costs a look too.
    left = left - 1
    done, score, member = done + 1, '', ''
  end
  if finish then
    finish(now)
  end
  local reply = {taken, done, score, member}
  ledger_note(now, cjson.encode(reply))
  return reply, taken
end
