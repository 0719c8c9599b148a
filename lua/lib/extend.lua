-- The marker of a job that is held for long, for peers that ask before they remove one: a key and a
-- field of the row, both with a time to live of two leases, so that a crash ends them. It is set when
-- a claim is first extended: most jobs have ended by then.
-- @splice lib/base

local function mark_extended(id, token, lease_ms)
  call('SET', row_key(id) .. ':lock', token, 'PX', 2 * lease_ms)
  call('HSET', row_key(id), 'lock', token)
  local set = try('HPEXPIRE', row_key(id), 2 * lease_ms, 'FIELDS', 1, 'lock')
  if set.err then
    -- A server without field expiry would keep the field for ever.
    call('HDEL', row_key(id), 'lock')
  end
end
