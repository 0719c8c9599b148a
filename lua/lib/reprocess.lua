-- @splice lib/sound
-- @splice lib/release
-- @splice lib/unique

refuse_foreign(JOB_SETS)

-- Brings a dead or cancelled job back to where it came from, with a fresh budget of attempts; the
-- token goes on growing. It holds its unique key again where nobody else does by now. Answers
-- 'done', 'gone', or 'refused' where it is neither dead nor cancelled.
local function reprocess_job(id, now)
  local key = row_key(id)
  local dead = call('ZREM', base .. 'dead', id) == 1
  if dead then
    try('ZREM', base .. 'died', id)
  end
  if not read_row(id) then
    if dead then
      count('dropped', 1)
    end
    local state = try('HGET', key .. ':outcome', 'state')
    if state ~= 'cancelled' then
      return type(state) == 'string' and 'refused' or 'gone'
    end
    call('RENAME', key .. ':outcome', key)
    call('PERSIST', key)
    call('PERSIST', key .. ':logs')
    try('ZREM', base .. 'outcomes', id)
  elseif not dead then
    return 'refused'
  end
  local row = read_row(id, 'group', 'priority', 'unique', 'unique_until', 'unique_ttl')
  call('HSET', key, 'state', 'pending', 'since', now, 'attempts_base', row[1])
  call('HDEL', key, 'last_error', 'stalled', 'cancel', 'finished_at', 'result')
  if row[4] and row[5] ~= 'ttl' and not unique_holder(row[4]) then
    hold_unique(id, row[4], whole(row[6]) or 0, row[5], now)
  end
  place(row[2], row[3], id)
  announce('reprocessed', id, 'lane', row[2])
  return 'done'
end
