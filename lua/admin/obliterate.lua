-- Removes a paused queue with all that belongs to it, a bounded step at a time.
--
-- KEYS  1 base
-- ARGV  1 remove at most so many jobs  2 '1' to take jobs in hand too
-- Reply 1 how many jobs were removed  2 1 where there is more to do, else 0
-- Errors EMQSTATE 'not paused', 'active jobs present' (nothing is changed)
-- @splice lib/release
-- @splice lib/lanes

if call('HEXISTS', base .. 'meta', 'paused') == 0 then
  return redis.error_reply('EMQSTATE not paused')
end
if ARGV[2] ~= '1' and call('EXISTS', base .. 'active') == 1 then
  return redis.error_reply('EMQSTATE active jobs present')
end

local budget, removed = tonumber(ARGV[1]), 0
local sets = {base .. 'pending', base .. 'schedule', base .. 'dead', base .. 'active'}
for _, group in ipairs(lanes_with_jobs()) do
  sets[#sets + 1] = lane_key(group)
end
for _, set in ipairs(sets) do
  for _, id in ipairs(call('ZRANGE', set, 0, budget - removed - 1)) do
    forget(id)
    call('ZREM', set, id)
    removed = removed + 1
  end
  if removed >= budget then
    return {removed, 1}
  end
end
local outcomes = call('ZRANGE', base .. 'outcomes', 0, budget - 1)
for _, id in ipairs(outcomes) do
  call('UNLINK', row_key(id) .. ':outcome', row_key(id) .. ':logs')
  call('ZREM', base .. 'outcomes', id)
end
if #outcomes >= budget then
  return {removed, 1}
end

for _, set in ipairs({'repeat', 'cron', 'workers'}) do
  local record = set == 'workers' and 'worker:' or 'repeat:'
  for _, name in ipairs(call('ZRANGE', base .. set, 0, -1)) do
    call('UNLINK', base .. record .. name)
  end
end
for _, name in ipairs(call('SMEMBERS', base .. 'schedules')) do
  call('UNLINK', base .. 'repeat:' .. name)
end
announce('obliterated', '')
-- Figures as far back as they are kept, and some to spare for a clock that was set.
for kind, kept in pairs({m = {HOUR_MS, 26}, h = {DAY_MS, 33}, l = {HOUR_MS, 50}}) do
  local current = math.floor(server_ms() / kept[1])
  for number = current - kept[2], current + 2 do
    call('UNLINK', stats_key(kind, number))
  end
end
for _, key in ipairs({'repeat', 'cron', 'schedules', 'workers', 'outcomes', 'died', 'cancels', 'ring',
    'paused', 'glimit', 'gactive', 'gweight', 'wake', 'limiter', 'rate', 'flow:outbox',
    'metrics:completed', 'metrics:failed', 'metrics:cancelled', 'metrics:dropped', 'ledger:0',
    'ledger:1', 'ledger:2', 'ledger:3', 'meta'}) do
  call('UNLINK', base .. key)
end
return {removed, 0}
