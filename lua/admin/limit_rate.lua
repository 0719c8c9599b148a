-- Bounds how many jobs of the queue start within any window of a length, over all workers.
--
-- KEYS  1 base
-- ARGV  1 how many  2 the window in ms; both '' for no limit
-- Reply 1
-- @splice lib/settings

set_rate(ARGV[1], ARGV[2])
return 1
