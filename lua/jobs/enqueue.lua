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
-- @splice lib/place
-- @splice lib/stats
-- @splice lib/announce

local when, ms, lane, priority = ARGV[3], tonumber(ARGV[4]), ARGV[5], ARGV[6]
local minted, unique, unique_ttl, held_until = ARGV[7] == 'minted', ARGV[8], ARGV[9], ARGV[10]
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
  -- A write, so that a WAIT behind the repeated call covers what the first has written.
  ledger_note(now, noted)
  return cjson.decode(noted)
end

local score = ms
if when == 'in' then
  score = now + ms
end

-- Made when they are first wanted, as most jobs need none of them: the claim on the unique key, the
-- record of an earlier life under the id forgotten, the way to the schedule.
local function rarely()
  -- @splice lib/unique
  -- @splice lib/cancel
  -- @splice lib/park
  local keep = {ms = tonumber(ARGV[12]), max = tonumber(ARGV[13])}

  -- The job that keeps the key; or none, and the one that this call's is to replace.
  local function holder()
    local id, state = unique_holder(unique)
    local waits = state == 'pending' or state == 'scheduled'
    if ARGV[11] == 'replace' and waits then
      return nil, id
    end
    return id
  end

  local function take_key(id, replaced)
    if replaced then
      cancel_job(replaced, 'replaced by ' .. id, keep, now)
    end
    hold_unique(id, unique, tonumber(unique_ttl), held_until, now)
  end

  return {holder = holder, take_key = take_key, forget_outcome = forget_outcome, park = park}
end
local rare = (unique ~= '' or not minted or when ~= 'now') and rarely()

-- What the rows have beside the payload.
local fields = {'state', when == 'now' and 'pending' or 'scheduled', 'attempts', '0'}
local function field(name, value)
  fields[#fields + 1] = name
  fields[#fields + 1] = value
end
if lane ~= '' then
  field('group', lane)
end
if priority ~= '0' then
  field('priority', priority)
end
if unique ~= '' then
  field('unique', unique)
  if held_until ~= 'done' then
    field('unique_until', held_until)
  end
  if unique_ttl ~= '0' then
    field('unique_ttl', unique_ttl)
  end
end
field('payload', '')

local function write(id, payload)
  if not minted then
    rare.forget_outcome(id)
  end
  fields[#fields] = payload
  call('HSET', row_key(id), unpack(fields))
  if when == 'now' then
    announce('enqueued', id, 'lane', lane ~= '' and lane)
  else
    announce('scheduled', id, 'lane', lane ~= '' and lane, 'at', score)
  end
end

-- A place comes first of all writes: where a foreign key of another type is in the way, nothing has
-- happened. Jobs that wait in one place go there together; a time and a unique key are each one's own.
local together = when == 'now' and unique == ''
local answer, admitted, payloads = {}, {}, {}
for i = FIRST, #ARGV, 2 do
  local id, holder, replaced = ARGV[i], nil, nil
  if payloads[id] or call('EXISTS', row_key(id)) == 1 then
    holder = minted and 0 or id
  elseif unique ~= '' then
    holder, replaced = rare.holder()
  end
  answer[#answer + 1] = holder or 1
  if not holder then
    admitted[#admitted + 1] = id
    payloads[id] = ARGV[i + 1]
    if not together then
      if when == 'now' then
        place(lane ~= '' and lane, priority, id)
      else
        rare.park(id, score)
      end
      if unique ~= '' then
        rare.take_key(id, replaced)
      end
      write(id, payloads[id])
    end
  end
end
if together and #admitted > 0 then
  place(lane ~= '' and lane, priority, unpack(admitted))
  for _, id in ipairs(admitted) do
    write(id, payloads[id])
  end
end
if when == 'now' then
  ring_wake(#admitted)
end
if #admitted > 0 then
  count('enqueued', #admitted)
end
finish(now)
ledger_note(now, cjson.encode(answer))
return answer
