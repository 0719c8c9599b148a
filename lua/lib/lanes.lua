-- @splice lib/ring

-- Every lane that has jobs: it is in the ring, or paused, or at its limit.
local function lanes_with_jobs()
  local seen, lanes = {}, {}
  for _, list in ipairs({call('LRANGE', base .. 'ring', 0, -1), call('SMEMBERS', base .. 'paused'),
      call('HKEYS', base .. 'glimit')}) do
    for _, group in ipairs(list) do
      if not seen[group] and lane_depth(group) > 0 then
        seen[group] = true
        lanes[#lanes + 1] = group
      end
    end
  end
  return lanes
end
