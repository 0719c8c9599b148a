-- How many jobs are in each state, and how many ended.
--
-- KEYS  1 base
-- Reply pending (every lane included), active, scheduled, dead, completed, failed
-- @splice lib/lanes

local pending = call('ZCARD', base .. 'pending')
for _, group in ipairs(lanes_with_jobs()) do
  pending = pending + call('ZCARD', lane_key(group))
end
return {
  pending, call('ZCARD', base .. 'active'), call('ZCARD', base .. 'schedule'), call('ZCARD', base .. 'dead'),
  tonumber(call('HGET', base .. 'metrics:completed', 'count')) or 0,
  tonumber(call('HGET', base .. 'metrics:failed', 'count')) or 0,
}
