-- Removes a job with everything that belongs to it, wherever it stands.
--
-- KEYS  1 base
-- ARGV  1 id
-- Reply 1, or 0 where there is nothing of it
-- Errors EMQLOCK a worker holds it (nothing is changed)
-- @splice lib/release

local id = ARGV[1]
local field = try('HEXISTS', row_key(id), 'lock')
if call('EXISTS', row_key(id) .. ':lock') == 1 or field == 1 then
  return redis.error_reply('EMQLOCK a worker holds the job')
end
local found = forget(id)
if call('UNLINK', row_key(id) .. ':outcome') == 1 then
  call('ZREM', base .. 'outcomes', id)
  found = true
end
if found then
  announce('removed', id)
end
return found and 1 or 0
