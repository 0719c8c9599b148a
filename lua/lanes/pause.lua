#!lua flags=allow-oom
-- Stops claiming from a lane. Its jobs in hand finish; its backlog is not touched.
--
-- KEYS  1 base
-- ARGV  1 lane
-- Reply 1 where the lane was not paused before, else 0
-- @splice lib/ring

local was = call('SADD', base .. 'paused', ARGV[1])
settle_ring(ARGV[1])
return was
