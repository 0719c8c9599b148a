#!lua flags=allow-oom
-- Starts claiming from a lane again.
--
-- KEYS  1 base
-- ARGV  1 lane
-- Reply 1 where the lane was paused before, else 0
-- @splice lib/settings

local was = call('SREM', base .. 'paused', ARGV[1])
serve_lane(ARGV[1])
return was
