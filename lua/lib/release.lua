-- How a job leaves the active set, in whatever way its claim ends.
-- @splice lib/place
-- @splice lib/lock
-- @splice lib/stats
-- @splice lib/announce
-- @splice lib/unique
-- @splice lib/limits

local function leave_active(id, group)
  if call('ZREM', base .. 'active', id) == 0 then
    return false
  end
  unmark_held(id)
  if group then
    lane_in_hand(group, -1)
    settle_ring(group)
  end
  if above_zero(read_meta()[2]) and anything_waits() then
    ring_wake(1) -- a worker that met the queue's ceiling has parked
  end
  return true
end

-- Removes what belongs to a job beside its row.
local function drop_satellites(id)
  local row = row_key(id)
  call('UNLINK', row .. ':lock', row .. ':logs', row .. ':dependencies', row .. ':processed',
    row .. ':failed', row .. ':unsuccessful')
end

-- Deletes a job with everything that belongs to it, wherever it stands. Answers whether there was
-- anything of it.
local function forget(id)
  local row = read_row(id, 'group', 'unique')
  local group = row and row[2]
  local found = leave_active(id, group)
  found = unplace(id, group) or found
  found = try('ZREM', base .. 'schedule', id) == 1 or found
  found = try('ZREM', base .. 'dead', id) == 1 or found
  try('ZREM', base .. 'died', id)
  try('HDEL', base .. 'cancels', id)
  if row then
    free_unique(id, row[3])
  end
  drop_satellites(id)
  return call('UNLINK', row_key(id)) == 1 or found
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
