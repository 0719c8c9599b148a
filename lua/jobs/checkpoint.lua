#!lua flags=allow-oom
-- Extends one claim from inside its handler, and may note how far the handler is.
--
-- KEYS  1 base
-- ARGV  1 id  2 token  3 lease in ms  4 details or ''
-- Reply 1 ok, stale (another token, or no longer active) or gone  2 why it is to be cancelled, or ''
-- @splice lib/extend

local id, token, lease_ms = ARGV[1], ARGV[2], tonumber(ARGV[3])
local row = read_row(id, 'cancel')
if not row then
  return {'gone', ''}
end
if row[1] ~= token or not call('ZSCORE', base .. 'active', id) then
  return {'stale', ''}
end
call('ZADD', base .. 'active', 'XX', server_ms() + lease_ms, id)
mark_extended(id, token, lease_ms)
if ARGV[4] ~= '' then
  call('HSET', row_key(id), 'checkpoint', ARGV[4])
end
return {'ok', row[2] or ''}
