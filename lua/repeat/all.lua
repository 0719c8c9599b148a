-- Every schedule: registered here or by a stock node, waiting, paused or over.
--
-- KEYS  1 base
-- ARGV  names; all where there are none
-- Reply 1 the server's now (Unix ms)  2 per schedule three values: name, next run or '', its fields
--       as a flat list
-- @splice lib/cadence
-- @splice lib/tidy

local names = ARGV
if #ARGV == 0 then
  names = call('SMEMBERS', base .. 'schedules')
  local known = {}
  for _, name in ipairs(names) do
    known[name] = true
  end
  for _, set in ipairs(CADENCES) do
    for _, name in ipairs(call('ZRANGE', base .. set, 0, -1)) do
      if not known[name] then
        known[name] = true
        names[#names + 1] = name
      end
    end
  end
end
local answer = {}
for _, name in ipairs(names) do
  local record = try('HGETALL', record_key(name))
  if not record.err and #record > 0 then
    answer[#answer + 1] = name
    answer[#answer + 1] = call('ZSCORE', cadence_set(name), name) or ''
    answer[#answer + 1] = record
  end
end
return tidied({server_ms(), answer})
