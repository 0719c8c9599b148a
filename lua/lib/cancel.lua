-- @splice lib/outcome

-- Cancels a job: 'done' where it waited, 'asked' where its worker has to hear of it, 'gone', or
-- 'refused' where it is dead or a flow's parent.
local function cancel_job(id, reason, keep, now)
  local row = read_row(id, 'group', 'unique')
  if not row then
    return 'gone'
  end
  if call('ZSCORE', base .. 'active', id) then
    call('HSET', base .. 'cancels', id, reason)
    call('HSET', row_key(id), 'cancel', reason)
    return 'asked'
  end
  if call('ZREM', base .. 'schedule', id) == 0 and not unplace(id, row[2] or nil) then
    return 'refused'
  end
  conclude_cancelled(id, row[3], reason, keep, now)
  return 'done'
end
