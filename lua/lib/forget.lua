-- @splice lib/release

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
  return drop_row(id) or found
end
