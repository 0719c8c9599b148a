-- Admits jobs: to the flat set, to a lane, or to the schedule.
--
-- KEYS  1 base
-- ARGV  1 ledger slot  2 ledger number
--       3 when: 'now', 'at' (4 is Unix ms) or 'in' (4 is ms from the server's now)  4 ms
--       5 lane or ''  6 priority  7 'minted' (a collision is answered, to be minted again) or 'own'
--       8 unique key or ''  9 its ttl in ms or 0  10 held until 'done', 'started' or 'ttl'
--       11 'skip' or 'replace': what a job that waits under the key does to this one, or this to it
--       12 keep the outcome record of a replaced job for so many ms  13 keep at most so many
--       14.. pairs of id, payload
-- Reply one entry per pair: 1 admitted; 0 a minted id that met a row; an id, the job that holds the
--       caller's own id or the unique key
-- Errors EMQKIND an id whose namespace is not JOB (nothing is written); EMQOLD
-- @splice lib/ledger
-- @splice lib/park
-- @splice lib/stats
-- @splice lib/announce
-- @splice lib/cancel

local when, ms, lane, priority = ARGV[3], tonumber(ARGV[4]), ARGV[5], ARGV[6]
local minted, unique, unique_ttl = ARGV[7] == 'minted', ARGV[8], tonumber(ARGV[9])
local held_until, on_conflict = ARGV[10], ARGV[11]
local keep = {ms = tonumber(ARGV[12]), max = tonumber(ARGV[13])}
local FIRST = 14

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
  if unique ~= '' then
    local holder, state = unique_holder(unique)
    local waits = state == 'pending' or state == 'scheduled'
    if holder and not (on_conflict == 'replace' and waits
        and cancel_job(holder, 'replaced by ' .. id, keep, now) == 'done') then
      return holder
    end
  end
  if not minted then
    -- The record of an earlier life under this id.
    forget_outcome(id)
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
    if held_until ~= 'done' then
      fields[#fields + 1] = 'unique_until'
      fields[#fields + 1] = held_until
    end
    if unique_ttl > 0 then
      fields[#fields + 1] = 'unique_ttl'
      fields[#fields + 1] = ARGV[9]
    end
    hold_unique(id, unique, unique_ttl, held_until, now)
  end
  if when == 'now' then
    place(id, lane ~= '' and lane, priority)
    announce('enqueued', id, 'lane', lane ~= '' and lane)
  else
    park(id, score)
    announce('scheduled', id, 'lane', lane ~= '' and lane, 'at', score)
  end
  -- After its place, which may be a foreign key: a row that stands nowhere would hold its id.
  call('HSET', row, unpack(fields))
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
end
write_stats(now)
ledger_note(now, cjson.encode(answer))
return answer
