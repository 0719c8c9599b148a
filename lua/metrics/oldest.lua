-- How long the job that has waited longest has been claimable.
--
-- KEYS  1 base
-- Reply ms; -1 where none waits
-- @splice lib/lanes
-- @splice lib/since

-- Within one priority jobs stand in mint order, so the first tells, unless it was retried, recovered
-- or promoted late. So many are looked at then.
local LOOK = 20

local oldest

-- Looks at the head of one priority.
local function look(members)
  for i = 1, #members, 2 do
    local id = members[i]
    local minted = minted_ms(id)
    if members[i + 1] ~= members[2] or (oldest and minted and minted >= oldest) then
      return
    end
    local row = read_row(id, 'since', 'started_at')
    local since = row and claimable_ms(id, row[1], row[2], row[3])
    if since and (not oldest or since < oldest) then
      oldest = since
    end
  end
end

local sets = {base .. 'pending'}
for _, group in ipairs(lanes_with_jobs()) do
  sets[#sets + 1] = lane_key(group)
end
for _, set in ipairs(sets) do
  local above = '-inf'
  for _ = 1, 201 do -- as many as there are priorities
    local members = call('ZRANGE', set, above, '+inf', 'BYSCORE', 'LIMIT', 0, LOOK, 'WITHSCORES')
    if #members == 0 then
      break
    end
    look(members)
    if #members < 2 * LOOK and members[#members] == members[2] then
      break
    end
    above = '(' .. members[2]
  end
end
return oldest and math.max(0, server_ms() - oldest) or -1
