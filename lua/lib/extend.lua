-- The marker of a held job from the first time that its claim is extended: a field of the row, too.
-- @splice lib/lock

local function mark_extended(id, token, lease_ms)
  mark_held(id, token, lease_ms)
  call('HSET', row_key(id), 'lock', token)
  local set = try('HPEXPIRE', row_key(id), 2 * lease_ms, 'FIELDS', 1, 'lock')
  if set.err then
    -- A server without field expiry would keep the field for ever.
    call('HDEL', row_key(id), 'lock')
  end
end
