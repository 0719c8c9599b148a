-- All that says at one look how a queue is.
--
-- KEYS  1 base
-- Reply 1 pending (every lane included), active, scheduled, dead, completed, failed
--       2 1 where it is paused, else 0  3 concurrency, 4 rate: starts and 5 its period in ms, or 0
--       6 1 where a limit forbids a claim now, else 0  7 ms of the oldest wait, -1 none waits
--       8 live workers  9 pending in the flat set
--       10, 11 the last 60 minutes, as of metrics/throughput
-- @splice lib/figures
-- @splice lib/limits

local now, lanes, depths = server_ms(), lanes_with_jobs()
local meta, limits = read_meta(), read_limits(now)
local first, figures = throughput_of('minute', 60, now)
return {
  count_jobs(depths), meta[1] and 1 or 0,
  above_zero(meta[2]) or 0, limits.rate and limits.rate.max or 0, limits.rate and limits.rate.period or 0, limits.room <= 0 and 1 or 0,
  oldest_wait(lanes, now), call('ZCOUNT', base .. 'workers', now, '+inf'), call('ZCARD', base .. 'pending'),
  first, figures,
}
