#!lua flags=allow-oom
-- Cancels jobs: at once where one waits; where it is in hand, its worker hears of it on its beat.
--
-- KEYS  1 base
-- ARGV  1 ledger slot  2 ledger number  3 reason  4 keep outcome records for so many ms
--       5 keep at most so many  6.. ids
-- Reply a word per id: done, asked (its worker was told), gone, or refused (it is dead, or a flow's
--       parent)
-- Errors EMQOLD
-- @splice lib/each
-- @splice lib/cancel

local keep = {ms = tonumber(ARGV[4]), max = tonumber(ARGV[5])}
return (each_job(6, function(id, now)
  return cancel_job(id, ARGV[3], keep, now)
end, finish))
