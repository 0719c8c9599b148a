-- @splice lib/release

-- Moves up to `limit` due jobs from the schedule to where they wait. Answers how many.
local function promote_due(limit, now)
  local due = call('ZRANGE', base .. 'schedule', '-inf', now, 'BYSCORE', 'LIMIT', 0, limit)
  local moved = 0
  for _, id in ipairs(due) do
    call('ZREM', base .. 'schedule', id)
    local row = read_row(id, 'group', 'priority')
    if row then
      call('HSET', row_key(id), 'state', 'pending', 'since', now)
      place(id, row[2], row[3])
      announce('promoted', id, 'lane', row[2])
      moved = moved + 1
    else
      count('dropped', 1)
    end
  end
  ring_wake(moved)
  return moved, #due
end
