-- @splice lib/lanes
-- @splice lib/since
-- @splice lib/stats

-- How many jobs are in each state, and how many ended: pending (every lane included), active,
-- scheduled, dead, completed, failed.
local function count_jobs(depths)
  local pending = call('ZCARD', base .. 'pending')
  for _, depth in ipairs(depths) do
    pending = pending + depth
  end
  return {
    pending, call('ZCARD', base .. 'active'), call('ZCARD', base .. 'schedule'), call('ZCARD', base .. 'dead'),
    whole(try('HGET', base .. 'metrics:completed', 'count')) or 0,
    whole(try('HGET', base .. 'metrics:failed', 'count')) or 0,
  }
end

-- Within one priority jobs stand in mint order, so the first tells, unless it was retried, recovered
-- or promoted late. So many are looked at then: fewer in each of many lanes, as all take one step.
local LOOK, LOOK_IN_ALL, FEW_LANES, MANY_LANES = 20, 500, 20, 50
local FLAT_PRIORITIES, LANE_PRIORITIES = 20, 3

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

-- Ms for which the job that has waited longest has been claimable; -1 where none waits.
local function oldest_wait(lanes, now)
  local few = #lanes <= FEW_LANES
  local most = math.max(1, math.min(LOOK, math.floor(LOOK_IN_ALL / (#lanes + 1))))
  local function look_at(set, priorities)
    local below = '+inf'
    for _ = 1, priorities do
      -- The lowest priority first: it waits longest.
      local last = call('ZRANGE', set, below, '-inf', 'BYSCORE', 'REV', 'LIMIT', 0, 1, 'WITHSCORES')
      if #last == 0 then
        break
      end
      look(call('ZRANGE', set, last[2], last[2], 'BYSCORE', 'LIMIT', 0, most, 'WITHSCORES'))
      below = '(' .. last[2]
    end
  end

  look_at(base .. 'pending', FLAT_PRIORITIES)
  -- Those at the ring's head come first: they have waited longest for their turn.
  for n = 1, math.min(#lanes, MANY_LANES) do
    if few then
      look_at(lane_key(lanes[n]), LANE_PRIORITIES)
    else
      look(call('ZRANGE', lane_key(lanes[n]), 0, 0, 'WITHSCORES'))
    end
  end
  return oldest and math.max(0, now - oldest) or -1
end

local LETTERS = {'c', 'f', 'x', 'r', 'e'}

-- What happened to jobs in each of the last `count` minutes or hours, the running one included. Answers the
-- first one's start, and five numbers for each: completed, failed (dead), cancelled, retried, enqueued.
local function throughput_of(unit, count, now)
  local kind, step, per_key = 'm', MINUTE_MS, 60
  if unit == 'hour' then
    kind, step, per_key = 'h', HOUR_MS, 24
  end
  local last = math.floor(now / step)
  local first = last - count + 1

  local figures, n, read = {}, 0, nil
  for slot = first, last do
    local key, within = math.floor(slot / per_key), slot % per_key
    if not read or within == 0 then
      read = {}
      local flat = try('HGETALL', stats_key(kind, key))
      for i = 1, #flat, 2 do
        read[flat[i]] = flat[i + 1]
      end
    end
    for _, letter in ipairs(LETTERS) do
      local value = read[within .. letter]
      n = n + 1
      figures[n] = value and whole(value) or 0
    end
  end
  return first * step, figures
end
