-- Where a claimable job waits: its lane, else the flat set. Score is minus the priority, so the
-- lowest score is the highest priority and, within one, byte order is mint order. A job whose lane
-- is a foreign key of another type waits in the flat set, where it is served all the same.
-- @splice lib/ring

local function place(group, priority, ...)
  local score, entries = -(whole(priority) or 0), {...}
  if score == 0 then
    score = 0 -- never '-0'
  end
  for i = #entries, 1, -1 do
    entries[2 * i - 1], entries[2 * i] = score, entries[i]
  end
  if group and type(try('ZADD', lane_key(group), unpack(entries))) == 'number' then
    settle_ring(group)
  else
    call('ZADD', base .. 'pending', unpack(entries))
  end
end

-- Takes a waiting job out of its place; answers whether it was there.
local function unplace(id, group)
  if group and try('ZREM', lane_key(group), id) == 1 then
    -- Looking into the ring costs as much as there are lanes; only the last job takes its lane out.
    if call('EXISTS', lane_key(group)) == 0 then
      settle_ring(group)
    end
    return true
  end
  return try('ZREM', base .. 'pending', id) == 1
end
