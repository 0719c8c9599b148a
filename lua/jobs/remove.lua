-- Removes jobs with everything that belongs to them, wherever they stand.
--
-- KEYS  1 base
-- ARGV  1 ledger slot  2 ledger number  3.. ids
-- Reply a word per id: done, gone (there is nothing of it), or refused (a worker or a peer holds it)
-- Errors EMQOLD
-- @splice lib/each
-- @splice lib/forget
-- @splice lib/outcome

return (each_job(3, function(id, now)
  local field, deadline = try('HEXISTS', row_key(id), 'lock'), try('ZSCORE', base .. 'active', id)
  if call('EXISTS', row_key(id) .. ':lock') == 1 or field == 1
      or type(deadline) == 'string' and tonumber(deadline) > now then
    return 'refused'
  end
  local found = forget(id)
  if forget_outcome(id) or found then
    announce('removed', id)
    return 'done'
  end
  return 'gone'
end))
