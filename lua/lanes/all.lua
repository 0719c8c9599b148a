-- Every lane that has jobs, jobs in hand or settings.
--
-- KEYS  1 base
-- Reply per lane seven values: name, how many wait, in hand, limit or '', weight or '', 1 where it
--       is paused, 1 where it is in the ring
-- @splice lib/ring

local order, known, in_ring, is_paused = {}, {}, {}, {}

local function note(group)
  if not known[group] then
    known[group] = true
    order[#order + 1] = group
  end
end

local function noted(members, into)
  for _, group in ipairs(members) do
    note(group)
    into[group] = 1
  end
end

local function values(key)
  local flat, by_lane = call('HGETALL', base .. key), {}
  for i = 1, #flat, 2 do
    note(flat[i])
    by_lane[flat[i]] = flat[i + 1]
  end
  return by_lane
end

noted(call('LRANGE', base .. 'ring', 0, -1), in_ring)
noted(call('SMEMBERS', base .. 'paused'), is_paused)
local active, limits, weights = values('gactive'), values('glimit'), values('gweight')
local answer, n = {}, 0
for _, group in ipairs(order) do
  answer[n + 1], answer[n + 2], answer[n + 3] = group, lane_depth(group), active[group] or 0
  answer[n + 4], answer[n + 5] = limits[group] or '', weights[group] or ''
  answer[n + 6], answer[n + 7] = is_paused[group] or 0, in_ring[group] or 0
  n = n + 7
end
return answer
