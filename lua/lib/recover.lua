-- @splice lib/sound
-- @splice lib/outcome

refuse_foreign(JOB_SETS)

-- Takes up to `limit` jobs whose lease has lapsed out of the active set, back to where they came
-- from. With max_stalled > 0 each lapse is counted in the row, and the job that reaches it is
-- buried with the reason 'stalled'. A job that was asked to be cancelled ends as cancelled. Answers
-- how many went back, how many were buried, how many had lapsed, and which went where: id, 'pending'
-- or 'dead', flat.
-- With `only` set, jobs of that lane alone, among the first `look`.
local function recover_lapsed(limit, max_stalled, keep, now, only, look)
  local lapsed = call('ZRANGE', base .. 'active', '-inf', now, 'BYSCORE', 'LIMIT', 0, look or limit)
  local recovered, buried, went = 0, 0, {}
  for _, id in ipairs(lapsed) do
    local row = read_row(id, 'group', 'priority', 'unique', 'cancel', 'worker', 'lock')
    local meant = not only or (row and row[2] == only and recovered < limit)
    if meant then
      leave_active(id, row and row[2], row and row[7])
      if row then
        announce('stalled', id, 'lane', row[2], 'worker', row[6])
      end
    end
    if not meant then
      -- Another lane's.
    elseif not row then
      count('dropped', 1)
    elseif row[5] then
      try('HDEL', base .. 'cancels', id)
      conclude_cancelled(id, row[4], row[5], keep, now)
    elseif max_stalled > 0 and bump(id, 'stalled') >= max_stalled then
      bury(id, 'stalled', keep.dead_ms, now, row[4])
      buried = buried + 1
      went[#went + 1], went[#went + 2] = id, 'dead'
    else
      call('HSET', row_key(id), 'state', 'pending', 'since', now)
      place(row[2], row[3], id)
      recovered = recovered + 1
      went[#went + 1], went[#went + 2] = id, 'pending'
    end
  end
  ring_wake(recovered)
  return recovered, buried, #lapsed, went
end
