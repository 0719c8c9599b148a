-- A page of jobs of one state, by rank, without what is long: for lists and for looking through.
--
-- KEYS  1 base
-- ARGV  1 set below the base: pending active schedule dead outcomes g:<lane>:pending
--       2 first rank  3 last rank  4 'newest' or 'oldest' first  5 leave out payloads over so many bytes
-- Reply per job four values: id, score, length of the payload, fields as a flat list
-- @splice lib/base

local FIELDS = {'state', 'attempts', 'attempts_base', 'group', 'priority', 'unique', 'last_error', 'started_at',
  'finished_at', 'worker', 'stalled', 'schedule', 'cancel'}

local page
if ARGV[4] == 'newest' then
  page = call('ZRANGE', base .. ARGV[1], ARGV[2], ARGV[3], 'REV', 'WITHSCORES')
else
  page = call('ZRANGE', base .. ARGV[1], ARGV[2], ARGV[3], 'WITHSCORES')
end
local suffix = ARGV[1] == 'outcomes' and ':outcome' or ''
local longest = tonumber(ARGV[5])
local answer = {}
for i = 1, #page, 2 do
  local key = row_key(page[i]) .. suffix
  local values, flat, length = try('HMGET', key, unpack(FIELDS)), {}, 0
  if not values.err then
    for n, name in ipairs(FIELDS) do
      if values[n] then
        flat[#flat + 1] = name
        flat[#flat + 1] = values[n]
      end
    end
    length = call('HSTRLEN', key, 'payload')
    if length > 0 and length <= longest then
      flat[#flat + 1] = 'payload'
      flat[#flat + 1] = call('HGET', key, 'payload')
    end
  end
  local n = #answer
  answer[n + 1], answer[n + 2], answer[n + 3], answer[n + 4] = page[i], page[i + 1], length, flat
end
return answer
