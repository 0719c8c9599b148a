-- A page of jobs of one state, by rank.
--
-- KEYS  1 base
-- ARGV  1 set below the base: pending active schedule dead outcomes g:<lane>:pending
--       2 first rank  3 last rank  4 'newest' or 'oldest' first
-- Reply per job three values: id, score, the row (or outcome record) as a flat list
-- @splice lib/base
-- @splice lib/tidy

local page
if ARGV[4] == 'newest' then
  page = call('ZRANGE', base .. ARGV[1], ARGV[2], ARGV[3], 'REV', 'WITHSCORES')
else
  page = call('ZRANGE', base .. ARGV[1], ARGV[2], ARGV[3], 'WITHSCORES')
end
local suffix = ARGV[1] == 'outcomes' and ':outcome' or ''
local answer = {}
for i = 1, #page, 2 do
  local row = try('HGETALL', row_key(page[i]) .. suffix)
  answer[#answer + 1] = page[i]
  answer[#answer + 1] = page[i + 1]
  answer[#answer + 1] = row.err and {} or row
end
return tidied(answer)
