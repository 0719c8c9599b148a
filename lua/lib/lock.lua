-- The marker of a held job, for peers that ask before they remove one: a key, with a time to live of
-- two leases, so that a crash ends it.
-- @splice lib/base

local function mark_held(id, token, lease_ms)
  call('SET', row_key(id) .. ':lock', token, 'PX', 2 * lease_ms)
end
