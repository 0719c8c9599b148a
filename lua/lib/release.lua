-- How a job leaves the active set, in whatever way its claim ends.
-- @splice lib/place
-- @splice lib/stats
-- @splice lib/announce
-- @splice lib/free
-- @splice lib/limits

-- `extended` where the row has the field `lock`.
local function leave_active(id, group, extended)
  if call('ZREM', base .. 'active', id) == 0 then
    return false
  end
  if extended then
    call('UNLINK', row_key(id) .. ':lock')
    call('HDEL', row_key(id), 'lock')
  end
  if group then
    lane_in_hand(group, -1)
    settle_ring(group)
  end
  if above_zero(read_meta()[2]) and anything_waits() then
    ring_wake(1) -- a worker that met the queue's ceiling has parked
  end
  return true
end

-- Removes a row and what belongs to it; answers whether there was anything.
local function drop_row(id)
  local row = row_key(id)
  return call('UNLINK', row, row .. ':lock', row .. ':logs', row .. ':dependencies',
    row .. ':processed', row .. ':failed', row .. ':unsuccessful') > 0
end

-- Moves a job to the dead set. keep_ms > 0 bounds how long it stays there.
local function bury(id, reason, keep_ms, now, unique)
  call('HSET', row_key(id), 'state', 'dead', 'last_error', reason, 'finished_at', now)
  call('ZADD', base .. 'dead', 0, id)
  if keep_ms > 0 then
    try('ZADD', base .. 'died', now + keep_ms, id)
  end
  free_unique(id, unique)
  count('failed', 1)
  announce('dead', id, 'error', reason)
end
