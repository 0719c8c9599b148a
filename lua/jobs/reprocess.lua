-- Brings dead and cancelled jobs back to where they came from.
--
-- KEYS  1 base
-- ARGV  1 ledger slot  2 ledger number  3.. ids
-- Reply a word per id: done, gone, or refused (it is neither dead nor cancelled)
-- Errors EMQOLD
-- @splice lib/each
-- @splice lib/reprocess

local words, done = each_job(3, reprocess_job, finish)
ring_wake(done)
return words
