#!lua flags=allow-oom
-- One beat of the promoter: promotes what is due, recovers what has lapsed, trims what has ended.
--
-- KEYS  1 base
-- ARGV  1 at most so many of each  2 max stalled (0 never buries)  3 keep dead in ms (0 for ever)
--       4 keep outcome records for so many ms  5 keep at most so many
--       6 the worker that asks, or ''  7 what it says of itself (JSON)
-- Reply 1 promoted  2 recovered  3 buried  4 trimmed  5 ms until the next job is due, -1 none
--       6 how many jobs and lanes wait to be claimed, 0 while the queue is paused or at a limit
--       7 1 where a full batch was moved and more may be due
--       8 how many schedules are due  9 ms until the next schedule is due, -1 none
--       10 of the worker's jobs in hand, those to cancel: id, reason, flat
--       11 what the worker has been told: quiet, stop or ''
--       12 whose lease had lapsed: id, 'pending' or 'dead', flat
-- @splice lib/promote
-- @splice lib/recover
-- @splice lib/forget
-- @splice lib/unique
-- @splice lib/claim
-- @splice lib/cadence
-- @splice lib/workers

local batch, now = tonumber(ARGV[1]), server_ms()
local keep = {dead_ms = tonumber(ARGV[3]), ms = tonumber(ARGV[4]), max = tonumber(ARGV[5])}
local promoted, due = promote_due(batch, now)
local recovered, buried, lapsed, went = recover_lapsed(batch, tonumber(ARGV[2]), keep, now)

local ended = try('ZRANGE', base .. 'outcomes', '-inf', now, 'BYSCORE', 'LIMIT', 0, batch)
for _, id in ipairs(ended) do
  forget_outcome(id)
end
trim_throttled(now, batch)
local died = try('ZRANGE', base .. 'died', '-inf', now, 'BYSCORE', 'LIMIT', 0, batch)
for _, id in ipairs(died) do
  if call('ZSCORE', base .. 'dead', id) then
    forget(id)
    announce('removed', id)
  end
  call('ZREM', base .. 'died', id)
end

local waiting, limits = 0, read_limits(now)
if not limits.paused and limits.room > 0 then
  waiting = call('ZCARD', base .. 'pending') + call('LLEN', base .. 'ring')
end
-- Told again on each beat until the claim has ended, so that no reply that is lost matters.
local function cancels_of(worker)
  local told = {}
  if worker ~= '' then
    local asked = try('HGETALL', base .. 'cancels')
    for i = 1, #asked, 2 do
      local row = read_row(asked[i], 'worker')
      if not row or not call('ZSCORE', base .. 'active', asked[i]) then
        call('HDEL', base .. 'cancels', asked[i])
      elseif row[2] == worker then
        told[#told + 1] = asked[i]
        told[#told + 1] = asked[i + 1]
      end
    end
  end
  return told
end

finish(now)
local full = batch > 0 and math.max(due, lapsed, #ended, #died) >= batch
return {promoted, recovered, buried, #ended + #died, next_due(now), waiting, full and 1 or 0,
  runs_due(now), next_run(now), cancels_of(ARGV[6]),
  ARGV[6] ~= '' and note_worker(ARGV[6], ARGV[7], now) or '', went}
