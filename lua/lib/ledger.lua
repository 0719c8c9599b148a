-- What each client's last call answered. A client repeats a call whose reply was lost under the
-- same slot and number: the answer then comes from here and the call does not run again. A call
-- that a later one of the slot overtook on the way is refused.
--
-- Entries live in `ledger:<n>`, hashes that the server's clock turns over, so what short-lived
-- clients leave behind ends by itself: an entry is known for one to two periods.
-- @splice lib/base

local LEDGER_PERIOD_MS = 60000
local ledger_slot, ledger_number = ARGV[1], ARGV[2]

local function ledger_key(period)
  return base .. 'ledger:' .. period % 4
end

-- The noted answer, or nil where this call has not run; the second value is a refusal.
local function ledger_recall(now)
  local period = math.floor(now / LEDGER_PERIOD_MS)
  local entry = try('HGET', ledger_key(period), ledger_slot)
  if type(entry) ~= 'string' then
    entry = try('HGET', ledger_key(period - 1), ledger_slot)
  end
  if type(entry) ~= 'string' then
    return nil
  end
  local cut = string.find(entry, ':', 1, true)
  local noted, wanted = tonumber(string.sub(entry, 1, cut - 1)), tonumber(ledger_number)
  if noted == wanted then
    return string.sub(entry, cut + 1)
  end
  if noted > wanted then
    return nil, redis.error_reply('EMQOLD a later call of this client overtook this one')
  end
  return nil
end

local function ledger_note(now, answer)
  local key = ledger_key(math.floor(now / LEDGER_PERIOD_MS))
  if try('HSET', key, ledger_slot, ledger_number .. ':' .. answer) == 1 then
    call('PEXPIRE', key, 3 * LEDGER_PERIOD_MS, 'NX')
  end
end
