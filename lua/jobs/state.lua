-- The state of a job.
--
-- KEYS  1 base
-- ARGV  1 id
-- Reply pending active scheduled dead awaiting_children unknown absent, or completed cancelled
--       while an outcome record lives
-- @splice lib/where

return state_of(ARGV[1])
