-- @splice lib/release

-- The records made by this call, id to end; the index `outcomes` learns of them at its end.
local concluded = {}
local concluded_keep

-- Deletes an outcome record; answers whether there was one.
local function forget_outcome(id)
  concluded[id] = nil
  try('ZREM', base .. 'outcomes', id)
  return call('UNLINK', row_key(id) .. ':outcome', row_key(id) .. ':logs') > 0
end

local function write_outcomes()
  local outcomes, ends, logs = base .. 'outcomes', {}, {}
  for id, score in pairs(concluded) do
    ends[#ends + 1] = score
    ends[#ends + 1] = id
    logs[#logs + 1] = row_key(id) .. ':logs'
  end
  if #ends == 0 then
    return
  end
  if call('EXISTS', unpack(logs)) > 0 then
    for i = 1, #logs do
      call('PEXPIRE', logs[i], concluded_keep.ms)
    end
  end
  if type(try('ZADD', outcomes, unpack(ends))) ~= 'number' then
    return -- a foreign key; the records end by themselves
  end
  local over = call('ZCARD', outcomes) - concluded_keep.max
  if over > 0 then
    local oldest, keys = call('ZPOPMIN', outcomes, math.min(over, 100 + #ends / 2)), {}
    for i = 1, #oldest, 2 do
      keys[i], keys[i + 1] = row_key(oldest[i]) .. ':outcome', row_key(oldest[i]) .. ':logs'
    end
    call('UNLINK', unpack(keys))
  end
end

-- Turns the row of a job that has left every set into an outcome record that ends by itself after
-- keep.ms, at most keep.max of them; with either 0 nothing of the job stays.
local function conclude(id, state, keep, now, result)
  local key = row_key(id)
  if keep.ms <= 0 or keep.max <= 0 then
    drop_row(id)
    return
  end
  call('HSET', key, 'state', state, 'finished_at', now, 'result', result)
  call('RENAME', key, key .. ':outcome')
  call('PEXPIRE', key .. ':outcome', keep.ms)
  if not concluded_keep then
    concluded_keep = keep
    at_end[#at_end + 1] = write_outcomes
  end
  concluded[id] = now + keep.ms
end

-- Ends a job as cancelled.
local function conclude_cancelled(id, unique, reason, keep, now)
  free_unique(id, unique)
  count('cancelled', 1)
  call('HSET', row_key(id), 'last_error', reason)
  call('HDEL', row_key(id), 'cancel')
  conclude(id, 'cancelled', keep, now, '')
  announce('cancelled', id, 'reason', reason)
end
