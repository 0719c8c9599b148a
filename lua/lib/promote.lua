-- @splice lib/sound
-- @splice lib/release

refuse_foreign(JOB_SETS)

-- Moves a job from the schedule to where it waits. Answers whether there is such a job.
local function promote_job(id, now)
  call('ZREM', base .. 'schedule', id)
  local row = read_row(id, 'group', 'priority')
  if not row then
    count('dropped', 1)
    return false
  end
  call('HSET', row_key(id), 'state', 'pending', 'since', now)
  place(row[2], row[3], id)
  announce('promoted', id, 'lane', row[2])
  return true
end

-- Moves up to `limit` due jobs from the schedule to where they wait. Answers how many.
local function promote_due(limit, now)
  local due = call('ZRANGE', base .. 'schedule', '-inf', now, 'BYSCORE', 'LIMIT', 0, limit)
  local moved = 0
  for _, id in ipairs(due) do
    if promote_job(id, now) then
      moved = moved + 1
    end
  end
  ring_wake(moved)
  return moved, #due
end
