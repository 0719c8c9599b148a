#!lua flags=allow-oom
-- Moves the deadline of claims still held.
--
-- KEYS  1 base
-- ARGV  1 lease in ms  2.. pairs of id, token
-- Reply a word per pair: ok, stale (another token, or no longer active), gone
-- @splice lib/extend

local lease_ms = tonumber(ARGV[1])
local deadline = server_ms() + lease_ms
local words = {}
for i = 2, #ARGV, 2 do
  local id, row = ARGV[i], read_row(ARGV[i])
  local word = 'ok'
  if not row then
    word = 'gone'
  elseif row[1] ~= ARGV[i + 1] or not call('ZSCORE', base .. 'active', id) then
    word = 'stale'
  else
    call('ZADD', base .. 'active', 'XX', deadline, id)
    mark_extended(id, ARGV[i + 1], lease_ms)
  end
  words[#words + 1] = word
end
return words
