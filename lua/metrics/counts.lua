-- How many jobs are in each state, and how many ended.
--
-- KEYS  1 base
-- Reply pending (every lane included), active, scheduled, dead, completed, failed
-- @splice lib/ring

-- A lane that has jobs is in the ring, or paused, or at its limit.
local lanes = {}
for _, list in ipairs({call('LRANGE', base .. 'ring', 0, -1), call('SMEMBERS', base .. 'paused'),
    call('HKEYS', base .. 'glimit')}) do
  for _, group in ipairs(list) do
    lanes[group] = true
  end
end
local pending = call('ZCARD', base .. 'pending')
for group in pairs(lanes) do
  pending = pending + call('ZCARD', lane_key(group))
end
return {
  pending, call('ZCARD', base .. 'active'), call('ZCARD', base .. 'schedule'), call('ZCARD', base .. 'dead'),
  tonumber(call('HGET', base .. 'metrics:completed', 'count')) or 0,
  tonumber(call('HGET', base .. 'metrics:failed', 'count')) or 0,
}
