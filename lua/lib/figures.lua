-- @splice lib/lanes
-- @splice lib/since

-- How many jobs are in each state, and how many ended: pending in no lane, active, scheduled, dead,
-- completed, failed.
local function job_counts()
  return {
    call('ZCARD', base .. 'pending'), call('ZCARD', base .. 'active'), call('ZCARD', base .. 'schedule'),
    call('ZCARD', base .. 'dead'),
    whole(try('HGET', base .. 'metrics:completed', 'count')) or 0,
    whole(try('HGET', base .. 'metrics:failed', 'count')) or 0,
  }
end

local function depths_of(lanes)
  local depths = {}
  for i = 1, #lanes do
    depths[i] = lane_depth(lanes[i])
  end
  return depths
end

-- Into so many lanes one call looks for the oldest job, and into few of them more closely.
local LANES_LOOKED_INTO, FEW_LANES = 32, 20
-- Within one priority jobs stand in mint order, so the first tells, unless it was retried, recovered
-- or promoted late. So many are looked at then, and in one call beside the first ones so many in all.
local LOOK, LOOK_IN_ALL = 20, 250
local FLAT_PRIORITIES, LANE_PRIORITIES = 20, 3

local oldest
local looks_left = LOOK_IN_ALL

-- Looks at the head of one priority.
local function look(members)
  for i = 1, #members, 2 do
    local id = members[i]
    local minted = minted_ms(id)
    if members[i + 1] ~= members[2] or (oldest and minted and minted >= oldest) or (i > 1 and looks_left == 0) then
      return
    end
    if i > 1 then
      looks_left = looks_left - 1
    end
    local row = read_row(id, 'since', 'started_at')
    local since = row and claimable_ms(id, row[1], row[2], row[3])
    if since and (not oldest or since < oldest) then
      oldest = since
    end
  end
end

-- Looks at the heads of some priorities, the lowest first: it waits longest.
local function look_into(set, priorities)
  local below = '+inf'
  for _ = 1, priorities do
    local last = try('ZRANGE', set, below, '-inf', 'BYSCORE', 'REV', 'LIMIT', 0, 1, 'WITHSCORES')
    if #last == 0 then
      break
    end
    look(call('ZRANGE', set, last[2], last[2], 'BYSCORE', 'LIMIT', 0, LOOK, 'WITHSCORES'))
    below = '(' .. last[2]
  end
end

-- Ms for which the job that has waited longest has been claimable, of those in a page of lanes and,
-- with the first page, in no lane; -1 where none waits. `from` and `place` are where the page begins and
-- ends.
local function oldest_wait(lanes, from, place, now)
  local first = not from or from == ''
  if first then
    look_into(base .. 'pending', FLAT_PRIORITIES)
  end
  local few = first and place == '' and #lanes <= FEW_LANES
  for _, group in ipairs(lanes) do
    if few then
      look_into(lane_key(group), LANE_PRIORITIES)
    else
      look(try('ZRANGE', lane_key(group), 0, 0, 'WITHSCORES'))
    end
  end
  return oldest and math.max(0, now - oldest) or -1
end
