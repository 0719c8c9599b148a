-- A page of jobs of one state, by rank, without what is long: for lists and for looking through.
--
-- KEYS  1 base
-- ARGV  1 set below the base: pending active schedule dead outcomes g:<lane>:pending
--       2 first rank  3 last rank  4 'newest' or 'oldest' first
--       5 leave out payloads over so many bytes, and cut other fields there
--       6 score, 7 member behind which the ranks count, oldest first; or '', ''
-- Reply per job four values: id, score, length of the payload, fields as a flat list
-- @splice lib/behind
-- @splice lib/tidy

local FIELDS = {'state', 'attempts', 'attempts_base', 'group', 'priority', 'unique', 'last_error', 'started_at',
  'finished_at', 'worker', 'stalled', 'schedule', 'cancel'}

local set, page = base .. ARGV[1], nil
if ARGV[4] == 'newest' then
  page = call('ZRANGE', set, ARGV[2], ARGV[3], 'REV', 'WITHSCORES')
else
  local from = ARGV[6] == '' and 0 or rank_behind(set, ARGV[6], ARGV[7])
  page = call('ZRANGE', set, from + ARGV[2], from + ARGV[3], 'WITHSCORES')
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
        flat[#flat + 1] = string.sub(values[n], 1, longest)
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
return tidied(answer)
