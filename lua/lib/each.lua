-- @splice lib/ledger

-- One transition for each id from ARGV[first] on, then `finish` with the time, where given. Answers a
-- word per id, and how many of them are 'done'; a call whose reply was lost answers the same words and
-- does nothing.
local function each_job(first, transition, finish)
  local now = server_ms()
  local noted, refused = ledger_recall(now)
  if refused then
    return refused, 0
  end
  local words = {}
  if noted then
    for word in string.gmatch(noted, '%a+') do
      words[#words + 1] = word
    end
    return words, 0
  end
  local done = 0
  local sound, fault = pcall(function()
    for i = first, #ARGV do
      local word = transition(ARGV[i], now)
      words[#words + 1] = word
      done = done + (word == 'done' and 1 or 0)
    end
  end)
  if finish then
    finish(now)
  end
  if not sound then
    return fault_reply(fault), done
  end
  ledger_note(now, table.concat(words, ','))
  return words, done
end
