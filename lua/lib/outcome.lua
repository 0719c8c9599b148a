-- @splice lib/release

-- Deletes an outcome record; answers whether there was one.
local function forget_outcome(id)
  try('ZREM', base .. 'outcomes', id)
  return call('UNLINK', row_key(id) .. ':outcome', row_key(id) .. ':logs') > 0
end

-- Turns the row of a job that has left every set into an outcome record that ends by itself after
-- keep.ms, at most keep.max of them; with either 0 nothing of the job stays.
local function conclude(id, state, keep, now, result)
  local key = row_key(id)
  if keep.ms <= 0 or keep.max <= 0 then
    drop_satellites(id)
    call('UNLINK', key)
    return
  end
  call('HSET', key, 'state', state, 'finished_at', now, 'result', result)
  call('HDEL', key, 'cancel')
  call('RENAME', key, key .. ':outcome')
  call('PEXPIRE', key .. ':outcome', keep.ms)
  call('PEXPIRE', key .. ':logs', keep.ms)
  local outcomes = base .. 'outcomes'
  if type(try('ZADD', outcomes, now + keep.ms, id)) ~= 'number' then
    return -- a foreign key in the place of the list; the record ends by itself
  end
  local over = call('ZCARD', outcomes) - keep.max
  if over > 0 then
    local oldest = call('ZPOPMIN', outcomes, math.min(over, 100))
    for i = 1, #oldest, 2 do
      call('UNLINK', row_key(oldest[i]) .. ':outcome', row_key(oldest[i]) .. ':logs')
    end
  end
end

-- Ends a job as cancelled.
local function conclude_cancelled(id, unique, reason, keep, now)
  free_unique(id, unique)
  count('cancelled', 1)
  call('HSET', row_key(id), 'last_error', reason)
  conclude(id, 'cancelled', keep, now, '')
  announce('cancelled', id, 'reason', reason)
end
