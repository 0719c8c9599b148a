-- Every lane that has jobs, jobs in hand or settings.
--
-- KEYS  1 base
-- Reply per lane seven values: name, how many wait, in hand, limit or '', weight or '', 1 where it
--       is paused, 1 where it is in the ring
-- @splice lib/ring

local lanes, order = {}, {}

local function lane(group)
  if not lanes[group] then
    lanes[group] = {group, 0, 0, '', '', 0, 0}
    order[#order + 1] = group
  end
  return lanes[group]
end

for _, group in ipairs(call('LRANGE', base .. 'ring', 0, -1)) do
  lane(group)[7] = 1
end
for _, group in ipairs(call('SMEMBERS', base .. 'paused')) do
  lane(group)[6] = 1
end
for column, key in pairs({[3] = 'gactive', [4] = 'glimit', [5] = 'gweight'}) do
  local values = call('HGETALL', base .. key)
  for i = 1, #values, 2 do
    lane(values[i])[column] = values[i + 1]
  end
end
local answer, n = {}, 0
for _, group in ipairs(order) do
  local row = lanes[group]
  answer[n + 1], answer[n + 2], answer[n + 3], answer[n + 4] = group, lane_depth(group), row[3], row[4]
  answer[n + 5], answer[n + 6], answer[n + 7] = row[5], row[6], row[7]
  n = n + 7
end
return answer
