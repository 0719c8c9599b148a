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
table.sort(order)
local answer = {}
for _, group in ipairs(order) do
  local row = lanes[group]
  row[2] = lane_depth(group)
  for i = 1, 7 do
    answer[#answer + 1] = row[i]
  end
end
return answer
