-- @splice lib/release
-- @splice lib/limits
-- @splice lib/since

local function add_claim(claimed, id, payload, attempts, attempts_base, group, history, stalled)
  local n = #claimed
  local attempt = attempts - (whole(attempts_base) or 0)
  claimed[n + 1], claimed[n + 2], claimed[n + 3], claimed[n + 4] = id, payload, attempts, attempt
  claimed[n + 5], claimed[n + 6], claimed[n + 7] = group or '', history or '', whole(stalled) or 0
  return attempt
end

-- Claims up to `wanted` jobs, turn by turn: each serviceable lane takes as many as its weight, the
-- flat set one, so that no flood starves another. A turn that a small claim cuts short goes on in
-- the next. Nothing is claimed while the queue is paused or at a limit.
--
-- Answers a flat list with seven values per job (id, payload, attempts, attempt, lane or '', history
-- or '', lapses so far), the ids, and what next_token answers. attempts is the fencing token; attempt
-- counts from one within the budget.
local function claim_jobs(wanted, lease_ms, worker, now)
  local claimed, ids = {}, {}
  if wanted <= 0 then
    return claimed, ids, -1
  end
  local limits = read_limits(now)
  if limits.paused then
    return claimed, ids, -1
  end
  local limit = math.min(wanted, limits.room)
  local active, deadline = base .. 'active', now + lease_ms

  local function take(key, n)
    local members = try('ZPOPMIN', key, n)
    if members.err or #members == 0 then
      return 0
    end
    local leases = {}
    for i = 1, #members, 2 do
      leases[i], leases[i + 1] = deadline, members[i]
    end
    -- From here on the sweep finds them, whatever stands in the way below.
    if type(try('ZADD', active, unpack(leases))) ~= 'number' then
      for i = 1, #members, 2 do
        call('ZADD', key, members[i + 1], members[i])
      end
      return error('the key active is of another type')
    end
    for i = 1, #members, 2 do
      local id = members[i]
      local row = read_row(id, 'payload', 'group', 'attempts_base', 'history', 'unique',
        'stalled', 'since', 'started_at', 'unique_until')
      local attempts = row and whole(row[1])
      if not row or not row[2] then
        call('ZREM', active, id)
        count('dropped', 1)
      elseif not attempts then
        call('ZREM', active, id)
        bury(id, 'the row\'s attempts are not a number', 0, now, row[6])
      else
        attempts = attempts + 1
        call('HSET', row_key(id), 'state', 'active', 'attempts', attempts,
          'started_at', now, 'worker', worker)
        if row[10] == 'started' then
          free_unique(id, row[6])
        end
        local group = row[3]
        if group then
          lane_in_hand(group, 1)
        end
        local attempt = add_claim(claimed, id, row[2], attempts, row[4], group, row[5], row[7])
        local since = claimable_ms(id, row[1], row[8], row[9])
        if since then
          observe('w', now - since)
        end
        announce('started', id, 'lane', group, 'attempt', attempt, 'worker', worker)
        ids[#ids + 1] = id
      end
    end
    return #members / 2
  end

  local function ring_length()
    local lanes = try('LLEN', base .. 'ring')
    return type(lanes) == 'number' and lanes or 0
  end

  local lanes = limit > 0 and ring_length() or 0
  if lanes == 0 then
    -- Members without a row may leave a batch short of what is there.
    while #ids < limit and take(base .. 'pending', limit - #ids) > 0 do end
  else
    -- `turns` counts the lanes served since the flat set had its turn, across calls; `share` is
    -- `<n>:<lane>`, what is left of a turn.
    local turns, share = math.max(0, whole(limits.turns) or 0), limits.share or ''
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
        local left, of = string.match(share, '^(%d+):(.*)$')
        left = of == group and above_zero(left)
          or above_zero(try('HGET', base .. 'gweight', group)) or 1
        left = math.min(left, lane_headroom(group))
        local n = math.min(left, limit - #ids)
        if n > 0 then
          popped = take(lane_key(group), n)
        end
        settle_ring(group)
        share = ''
        if n > 0 and n < left and lane_depth(group) > 0 then
          turns = turns - 1
          share = string.format('%.0f:', left - popped) .. group
          call('LMOVE', base .. 'ring', base .. 'ring', 'RIGHT', 'LEFT')
        end
      end
      if popped == 0 then
        steps = steps - 1
      end
      lanes = ring_length()
    end
    if lanes == 0 then
      try('HDEL', base .. 'meta', 'turns', 'share')
    else
      try('HSET', base .. 'meta', 'turns', turns)
      if share ~= '' then
        try('HSET', base .. 'meta', 'share', share)
      elseif limits.share then
        try('HDEL', base .. 'meta', 'share')
      end
    end
  end

  if limits.rate and #ids > 0 then
    limits.rate.note(#ids)
  end
  if #ids < wanted then
    -- All that could be claimed is claimed, so what `wake` still says is stale.
    call('DEL', base .. 'wake')
  end
  return claimed, ids, next_token(limits)
end

-- Ms until the earliest scheduled job is due, at least 0; -1 where none waits.
local function next_due(now)
  local first = try('ZRANGE', base .. 'schedule', 0, 0, 'WITHSCORES')
  if #first == 0 then
    return -1
  end
  return math.max(0, math.ceil(tonumber(first[2]) - now))
end
