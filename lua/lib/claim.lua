-- @splice lib/release
-- @splice lib/lock

local function add_claim(claimed, id, payload, attempts, attempts_base, group, history)
  local n = #claimed
  claimed[n + 1], claimed[n + 2], claimed[n + 3] = id, payload, attempts
  claimed[n + 4] = string.format('%.0f', whole(attempts) - (whole(attempts_base) or 0))
  claimed[n + 5], claimed[n + 6] = group or '', history or ''
end

-- Claims up to `limit` jobs, turn by turn: each serviceable lane takes as many as its weight, the
-- flat set one, so that no flood starves another. Nothing is claimed while the queue is paused.
--
-- Answers a flat list with six values per job (id, payload, attempts, attempt, lane or '', history
-- or ''), and the ids. attempts is the fencing token; attempt counts from one within the budget.
local function claim_jobs(limit, lease_ms, worker, now)
  local claimed, ids, leases = {}, {}, {}
  if limit <= 0 or call('HEXISTS', base .. 'meta', 'paused') == 1 then
    return claimed, ids
  end

  local function take(key, n)
    local members = call('ZPOPMIN', key, n)
    for i = 1, #members, 2 do
      local id = members[i]
      local row = read_row(id, 'payload', 'group', 'attempts_base', 'history', 'unique', 'unique_until')
      local attempts = row and whole(row[1])
      if not row or not row[2] then
        count('dropped', 1)
      elseif not attempts then
        bury(id, 'the row\'s attempts are not a number', 0, now, row[6])
      else
        attempts = string.format('%.0f', attempts + 1)
        call('HSET', row_key(id), 'state', 'active', 'attempts', attempts,
          'started_at', now, 'worker', worker)
        mark_held(id, attempts, lease_ms)
        if row[7] == 'started' then
          free_unique(id, row[6])
        end
        local group = row[3]
        if group then
          try('HINCRBY', base .. 'gactive', group, 1)
        end
        add_claim(claimed, id, row[2], attempts, row[4], group, row[5])
        ids[#ids + 1] = id
        leases[#leases + 1] = now + lease_ms
        leases[#leases + 1] = id
      end
    end
    return #members / 2
  end

  local lanes = call('LLEN', base .. 'ring')
  if lanes == 0 then
    -- Members without a row may leave a batch short of what is there.
    while #ids < limit and take(base .. 'pending', limit - #ids) > 0 do end
  else
    -- `turns` counts the lanes served since the flat set had its turn, across calls.
    local turns = math.max(0, whole(call('HGET', base .. 'meta', 'turns')) or 0)
    local flat_left = true
    -- A step without a job takes a lane out of the ring or finds the flat set empty. In a ring that a
    -- foreign hand has left untrue it does neither, and must not hold the server.
    local steps = 2 * lanes + 2
    while #ids < limit and (lanes > 0 or flat_left) and steps > 0 do
      local popped = 0
      if flat_left and turns >= lanes then
        turns = 0
        popped = take(base .. 'pending', lanes > 0 and 1 or limit - #ids)
        flat_left = popped > 0
      else
        turns = turns + 1
        local group = call('LMOVE', base .. 'ring', base .. 'ring', 'LEFT', 'RIGHT')
        local weight = math.max(1, whole(call('HGET', base .. 'gweight', group)) or 1)
        local share = math.min(weight, limit - #ids, lane_headroom(group))
        if share > 0 then
          popped = take(lane_key(group), share)
        end
        settle_ring(group)
      end
      if popped == 0 then
        steps = steps - 1
      end
      lanes = call('LLEN', base .. 'ring')
    end
    if lanes > 0 then
      call('HSET', base .. 'meta', 'turns', turns)
    else
      call('HDEL', base .. 'meta', 'turns')
    end
  end

  if #leases > 0 then
    call('ZADD', base .. 'active', unpack(leases))
  end
  if #ids < limit then
    -- All that could be claimed is claimed, so what `wake` still says is stale.
    call('DEL', base .. 'wake')
  end
  return claimed, ids
end

-- Ms until the earliest scheduled job is due, at least 0; -1 where none waits.
local function next_due(now)
  local first = call('ZRANGE', base .. 'schedule', 0, 0, 'WITHSCORES')
  if #first == 0 then
    return -1
  end
  return math.max(0, math.ceil(tonumber(first[2]) - now))
end
