-- @splice lib/ring

-- Every lane that has jobs: it is in the ring, or paused, or at its limit. And how many each has.
local function lanes_with_jobs()
  local seen, lanes, depths = {}, {}, {}
  for _, list in ipairs({call('LRANGE', base .. 'ring', 0, -1), call('SMEMBERS', base .. 'paused'),
      call('HKEYS', base .. 'glimit')}) do
    for _, group in ipairs(list) do
      if not seen[group] then
        seen[group] = true
        local depth = lane_depth(group)
        if depth > 0 then
          lanes[#lanes + 1], depths[#depths + 1] = group, depth
        end
      end
    end
  end
  return lanes, depths
end
