-- All that says at one look how a queue is; and a page of the lanes that jobs may wait in.
--
-- KEYS  1 base
-- ARGV  1 '' or the place in the lanes to go on from
-- Reply 1 the place to go on from, '' at the end
--       2 lanes  3 how many wait in each  4 ms of the oldest wait, -1 none waits
--       without a place also
--       5 counts, as of metrics/counts
--       6 1 where it is paused, else 0  7 concurrency, 8 rate: starts and 9 its period in ms, or 0
--       10 1 where a limit forbids a claim now, else 0  11 live workers
--       12 now (Unix ms), 13 the running clock hour, 14 what was counted in it and before it, as of
--       metrics/history
-- @splice lib/figures
-- @splice lib/history
-- @splice lib/limits
-- @splice lib/tidy

local now, names, _, place = server_ms(), lanes_from(ARGV[1], LANES_LOOKED_INTO, BESIDE_RING)
local lanes = {place, names, depths_of(names), oldest_wait(names, ARGV[1], place, now)}
if ARGV[1] ~= '' then
  return tidied(lanes)
end
local meta, limits = read_meta(), read_limits(now)
local rate = limits.rate or {}
local hour = math.floor(now / KEPT_PER.m)
return tidied({
  lanes[1], lanes[2], lanes[3], lanes[4], job_counts(), meta[1] and 1 or 0,
  above_zero(meta[2]) or 0, rate.max or 0, rate.period or 0, limits.room <= 0 and 1 or 0,
  call('ZCOUNT', base .. 'workers', now, '+inf'), now, hour, history('m', hour, 2),
})
