-- @splice lib/release

-- Takes up to `limit` jobs whose lease has lapsed out of the active set, back to where they came
-- from. With max_stalled > 0 each lapse is counted in the row, and the job that reaches it is
-- buried with the reason 'stalled'. Answers how many went back and how many were buried.
local function recover_lapsed(limit, max_stalled, keep_dead_ms, now)
  local lapsed = call('ZRANGE', base .. 'active', '-inf', now, 'BYSCORE', 'LIMIT', 0, limit)
  local recovered, buried = 0, 0
  for _, id in ipairs(lapsed) do
    local row = read_row(id, 'group', 'priority', 'unique')
    leave_active(id, row and row[2])
    if not row then
      count('dropped', 1)
    elseif max_stalled > 0 and bump(id, 'stalled') >= max_stalled then
      bury(id, 'stalled', keep_dead_ms, now, row[4])
      buried = buried + 1
    else
      call('HSET', row_key(id), 'state', 'pending')
      place(id, row[2], row[3])
      recovered = recovered + 1
    end
  end
  ring_wake(recovered)
  return recovered, buried, #lapsed
end
