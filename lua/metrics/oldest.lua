-- How long the job that has waited longest has been claimable.
--
-- KEYS  1 base
-- Reply ms; -1 where none waits
-- @splice lib/figures

return oldest_wait(lanes_with_jobs(), server_ms())
