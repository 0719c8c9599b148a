-- Lets scheduled jobs be claimed at once.
--
-- KEYS  1 base
-- ARGV  1 ledger slot  2 ledger number  3.. ids
-- Reply a word per id: done, gone, or refused (it is not scheduled)
-- Errors EMQOLD
-- @splice lib/each
-- @splice lib/promote

local words, done = each_job(3, function(id, now)
  if not read_row(id) then
    return 'gone'
  end
  if not call('ZSCORE', base .. 'schedule', id) then
    return 'refused'
  end
  return promote_job(id, now) and 'done' or 'gone'
end, finish)
ring_wake(done)
return words
