-- One beat of the promoter: promotes what is due, recovers what has lapsed, trims what has ended.
--
-- KEYS  1 base
-- ARGV  1 at most so many of each  2 max stalled (0 never buries)  3 keep dead in ms (0 for ever)
-- Reply 1 promoted  2 recovered  3 buried  4 trimmed  5 ms until the next job is due, -1 none
--       6 how many jobs wait to be claimed  7 1 where a full batch was moved and more may be due
--       8 how many schedules are due  9 ms until the next schedule is due, -1 none
-- @splice lib/promote
-- @splice lib/recover
-- @splice lib/claim
-- @splice lib/cadence

local batch, now = tonumber(ARGV[1]), server_ms()
local promoted, due = promote_due(batch, now)
local recovered, buried, lapsed = recover_lapsed(batch, tonumber(ARGV[2]), tonumber(ARGV[3]), now)

local ended = call('ZRANGE', base .. 'outcomes', '-inf', now, 'BYSCORE', 'LIMIT', 0, batch)
for _, id in ipairs(ended) do
  call('UNLINK', row_key(id) .. ':outcome', row_key(id) .. ':logs')
  call('ZREM', base .. 'outcomes', id)
end
local died = call('ZRANGE', base .. 'died', '-inf', now, 'BYSCORE', 'LIMIT', 0, batch)
for _, id in ipairs(died) do
  if call('ZSCORE', base .. 'dead', id) then
    forget(id)
  end
  call('ZREM', base .. 'died', id)
end

local waiting = 0
if call('HEXISTS', base .. 'meta', 'paused') == 0 then
  waiting = call('ZCARD', base .. 'pending') + call('LLEN', base .. 'ring')
end
local full = math.max(due, lapsed, #ended, #died) >= batch
return {promoted, recovered, buried, #ended + #died, next_due(now), waiting, full and 1 or 0,
  runs_due(now), next_run(now)}
