-- @splice lib/ring

-- The state of a job, by set membership first, then by its row, then by its outcome record.
local function state_of(id)
  for _, at in ipairs({{'pending', 'pending'}, {'active', 'active'}, {'schedule', 'scheduled'}, {'dead', 'dead'}}) do
    if type(try('ZSCORE', base .. at[1], id)) == 'string' then
      return at[2]
    end
  end
  local row = try('HMGET', row_key(id), 'state', 'group')
  if not row.err and row[1] then
    if row[2] and type(try('ZSCORE', lane_key(row[2]), id)) == 'string' then
      return 'pending'
    end
    return row[1] == 'awaiting_children' and row[1] or 'unknown'
  end
  local outcome = try('HGET', row_key(id) .. ':outcome', 'state')
  return type(outcome) == 'string' and outcome or 'absent'
end
