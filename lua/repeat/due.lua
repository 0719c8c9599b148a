-- The schedules that are due.
--
-- KEYS  1 base
-- ARGV  1 at most so many
-- Reply 1 the server's now (Unix ms)  2 per schedule three values: name, the score seen, its fields
--       as a flat list
-- @splice lib/cadence

local now, limit = server_ms(), tonumber(ARGV[1])
local due = {}
for _, set in ipairs(CADENCES) do
  local page = call('ZRANGE', base .. set, '-inf', now, 'BYSCORE', 'LIMIT', 0, limit, 'WITHSCORES')
  for i = 1, #page, 2 do
    local record = try('HGETALL', record_key(page[i]))
    due[#due + 1] = page[i]
    due[#due + 1] = page[i + 1]
    due[#due + 1] = record.err and {} or record
  end
end
return {now, due}
