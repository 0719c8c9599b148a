#!lua flags=allow-oom
-- Settles claims that ended and claims what is free, in one step: the way out of the active set
-- and the way into it.
--
-- KEYS  1 base
-- ARGV  1 ledger slot  2 ledger number
--       3 how many jobs to claim  4 lease in ms  5 the worker's name
--       6 keep outcome records for so many ms (0 keeps none)  7 keep at most so many
--       8 keep dead jobs for so many ms (0 for ever)
--       9.. settlements: verb, id, token, then
--           complete  result
--           retry     delay in ms, max attempts, reason, history entry or ''
--           delay     'in' or 'at', ms from now or Unix ms
--           cancel    reason
--           release   nothing
-- Reply 1 a word per settlement (see lib/settle)
--       2 seven values per claimed job: id, payload, attempts, attempt, lane or '', history or '',
--         lapses so far
--       3 ms until the next scheduled job is due, -1 none
--       4 ms until the queue's rate lets another of its waiting jobs start, -1 where it holds none
--         back or none was asked for
-- Errors EMQOLD
-- @splice lib/ledger
-- @splice lib/claim
-- @splice lib/settle

local now = server_ms()
local noted, refused = ledger_recall(now)
if refused then
  return refused
end

if noted then
  -- The same call again: what it settled is settled, what it claimed is still the caller's unless
  -- its lease has lapsed meanwhile.
  local cut = string.find(noted, ';', 1, true)
  local words, claimed = {}, {}
  for word in string.gmatch(string.sub(noted, 1, cut - 1), '%a+') do
    words[#words + 1] = word
  end
  for id in string.gmatch(string.sub(noted, cut + 1), '%w+') do
    local row = read_row(id, 'payload', 'group', 'attempts_base', 'history', 'worker',
      'stalled')
    if row and row[2] and whole(row[1]) and row[6] == ARGV[5] and call('ZSCORE', base .. 'active', id) then
      add_claim(claimed, id, row[2], whole(row[1]), row[4], row[3], row[5], row[7])
    end
  end
  local token_ms = tonumber(ARGV[3]) > 0 and next_token(read_limits(now)) or -1
  return {words, claimed, next_due(now), token_ms}
end

local keep = {ms = tonumber(ARGV[6]), max = tonumber(ARGV[7]), dead_ms = tonumber(ARGV[8])}
local words = {}
local claimed, ids, token_ms
local sound, fault = pcall(function()
  local values = {complete = 4, retry = 7, delay = 5, cancel = 4, release = 3}
  local i, others = 9, nil
  while i <= #ARGV do
    local verb, id, token = ARGV[i], ARGV[i + 1], ARGV[i + 2]
    if verb == 'complete' then
      words[#words + 1] = settle_complete(id, token, ARGV[i + 3], keep, now)
    else
      others = others or other_ways()
      words[#words + 1] = others[verb](id, token, keep, now, ARGV[i + 3], ARGV[i + 4], ARGV[i + 5],
        ARGV[i + 6])
    end
    i = i + values[verb]
  end
  claimed, ids, token_ms = claim_jobs(tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5], now)
end)
finish(now)
if not sound then
  return fault_reply(fault)
end
ledger_note(now, table.concat(words, ',') .. ';' .. table.concat(ids, ','))
return {words, claimed, next_due(now), token_ms}
