-- Admits jobs: to the flat set, to a lane, or to the schedule.
--
-- KEYS  1 base
-- ARGV  1 ledger slot  2 ledger number
--       3 when: 'now', 'at' (4 is Unix ms) or 'in' (4 is ms from the server's now)  4 ms
--       5 lane or ''  6 priority  7 'minted' (a collision is answered, to be minted again) or 'own'
--       8 unique key or ''  9 unique ttl in ms or 0
--       10.. pairs of id, payload
-- Reply one entry per pair: 1 admitted; 0 a minted id that met a row; an id, the job that holds the
--       caller's own id or the unique key
-- Errors EMQKIND an id whose namespace is not JOB (nothing is written); EMQOLD
-- @splice lib/ledger
-- @splice lib/place
-- @splice lib/park
-- @splice lib/stats
-- @splice lib/announce

local when, ms, lane, priority = ARGV[3], tonumber(ARGV[4]), ARGV[5], ARGV[6]
local minted, unique, unique_ttl = ARGV[7] == 'minted', ARGV[8], tonumber(ARGV[9])
local FIRST = 10

for i = FIRST, #ARGV, 2 do
  if string.sub(ARGV[i], 1, 3) ~= 'JOB' then
    return redis.error_reply('EMQKIND only ids of the namespace JOB name jobs')
  end
end

local now = server_ms()
local noted, refused = ledger_recall(now)
if refused then
  return refused
end
if noted then
  return cjson.decode(noted)
end

local score = ms
if when == 'in' then
  score = now + ms
end

local function admit(id, payload)
  local row = row_key(id)
  if call('EXISTS', row) == 1 then
    return minted and 0 or id
  end
  if not minted and call('UNLINK', row .. ':outcome', row .. ':logs') > 0 then
    -- The record of an earlier life under this id.
    call('ZREM', base .. 'outcomes', id)
  end
  if unique ~= '' then
    local holder = call('GET', base .. 'de:' .. unique)
    if holder and call('EXISTS', row_key(holder)) == 1 then
      return holder
    end
  end
  local fields = {'state', when == 'now' and 'pending' or 'scheduled', 'attempts', '0', 'payload', payload}
  if lane ~= '' then
    fields[#fields + 1] = 'group'
    fields[#fields + 1] = lane
  end
  if priority ~= '0' then
    fields[#fields + 1] = 'priority'
    fields[#fields + 1] = priority
  end
  if unique ~= '' then
    fields[#fields + 1] = 'unique'
    fields[#fields + 1] = unique
  end
  call('HSET', row, unpack(fields))
  if unique ~= '' then
    if unique_ttl > 0 then
      call('SET', base .. 'de:' .. unique, id, 'PX', unique_ttl)
    else
      call('SET', base .. 'de:' .. unique, id)
    end
  end
  if when == 'now' then
    place(id, lane ~= '' and lane, priority)
    announce('enqueued', id, 'lane', lane ~= '' and lane)
  else
    park(id, score)
    announce('scheduled', id, 'lane', lane ~= '' and lane, 'at', score)
  end
  return 1
end

local answer, admitted = {}, 0
for i = FIRST, #ARGV, 2 do
  local verdict = admit(ARGV[i], ARGV[i + 1])
  answer[#answer + 1] = verdict
  if verdict == 1 then
    admitted = admitted + 1
  end
end
if when == 'now' then
  ring_wake(admitted)
end
if admitted > 0 then
  count('enqueued', admitted)
  write_stats(now)
end
ledger_note(now, cjson.encode(answer))
return answer
