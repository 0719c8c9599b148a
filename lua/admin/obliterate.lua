-- Removes a paused queue with all that belongs to it, a bounded step at a time.
--
-- KEYS  1 base
-- ARGV  1 ledger slot  2 ledger number  3 remove at most so many of its parts
--       4 '1' to take jobs in hand too
--       5 '' for a step; 'end' to lift the pause and forget the ledger, once there is no more to do
-- Reply 1 how many jobs were removed  2 1 where there is more to do, else 0
-- Errors EMQSTATE 'not paused', 'active jobs present' (nothing is changed); EMQOLD
-- @splice lib/ledger
-- @splice lib/forget
-- @splice lib/outcome

if ARGV[5] == 'end' then
  -- Apart from the last step, so that either may be repeated when its reply was lost.
  announce('obliterated', '')
  call('UNLINK', base .. 'ledger:0', base .. 'ledger:1', base .. 'ledger:2', base .. 'ledger:3', base .. 'meta')
  return {0, 0}
end
local now = server_ms()
local noted, refused = ledger_recall(now)
if refused then
  return refused
end
if noted then
  return cjson.decode(noted)
end
if call('HEXISTS', base .. 'meta', 'paused') == 0 then
  return redis.error_reply('EMQSTATE not paused')
end
if ARGV[4] ~= '1' and call('EXISTS', base .. 'active') == 1 then
  return redis.error_reply('EMQSTATE active jobs present')
end

local left, removed = tonumber(ARGV[3]), 0

-- Takes the members of a sorted set while the step lasts; answers how many.
local function take(set, remove)
  local members = left > 0 and try('ZRANGE', set, 0, left - 1) or {}
  if members.err then
    call('UNLINK', set)
  end
  for _, member in ipairs(members) do
    remove(member)
    call('ZREM', set, member)
  end
  left = left - #members
  return #members
end

local function record_of(name)
  return function(member)
    call('UNLINK', base .. name .. ':' .. member)
  end
end

for _, set in ipairs({'active', 'schedule', 'dead', 'pending'}) do
  removed = removed + take(base .. set, forget)
end
while left > 0 do
  local group = call('LINDEX', base .. 'ring', 0)
  if not group then
    break
  end
  local taken = take(lane_key(group), forget)
  removed = removed + taken
  if taken == 0 then
    call('LREM', base .. 'ring', 0, group)
  end
end
-- Those that are paused or at their limit.
for _, key in ipairs({{'paused', 'SRANDMEMBER', 'SREM'}, {'glimit', 'HRANDFIELD', 'HDEL'}}) do
  local groups = left > 0 and try(key[2], base .. key[1], left) or {}
  for _, group in ipairs(groups) do
    removed = removed + take(lane_key(group), forget)
    if lane_depth(group) == 0 then
      call(key[3], base .. key[1], group)
      left = math.max(0, left - 1)
    end
  end
end
take(base .. 'outcomes', forget_outcome)
take(base .. 'throttled', record_of('de'))
take(base .. 'repeat', record_of('repeat'))
take(base .. 'cron', record_of('repeat'))
take(base .. 'workers', record_of('worker'))
if left > 0 then
  local names = call('SPOP', base .. 'schedules', left)
  for _, name in ipairs(names) do
    call('UNLINK', base .. 'repeat:' .. name)
  end
  left = left - #names
end

if left > 0 then
  for _, key in ipairs({'died', 'cancels', 'ring', 'paused', 'glimit', 'gactive', 'gweight', 'wake', 'limiter',
      'rate', 'flow:outbox', 'metrics:completed', 'metrics:failed', 'metrics:cancelled',
      'metrics:dropped', 'stats:t', 'operations'}) do
    call('UNLINK', base .. key)
  end
  -- Figures as far back as they are kept, and some to spare for a clock that was set.
  for kind, kept in pairs({m = {HOUR_MS, 26}, h = {DAY_MS, 33}, l = {HOUR_MS, 50}}) do
    local current = math.floor(now / kept[1])
    for number = current - kept[2], current + 2 do
      call('UNLINK', stats_key(kind, number))
    end
  end
  call('HDEL', base .. 'meta', 'turns', 'share')
end
local reply = {removed, left > 0 and 0 or 1}
ledger_note(now, cjson.encode(reply))
return reply
