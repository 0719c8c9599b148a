-- Bounds how many jobs of the queue are in hand at once, over all workers. Those in hand stay.
--
-- KEYS  1 base
-- ARGV  1 how many, or '' for no limit
-- Reply 1
-- @splice lib/settings

set_concurrency(ARGV[1])
return 1
