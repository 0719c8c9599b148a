-- What happened since the queue began, as figures that only grow. Those that lib/stats keeps by hour and
-- day alone are summed up here before they end: who moves jobs has no part in that.
--
-- KEYS  1 base
-- Reply 1 completed  2 failed  3 cancelled
--       4 flat: r retried, e enqueued, w<n> and r<n> waits and runs of bucket n
-- @splice lib/history
-- @splice lib/tidy

-- What is younger than so many hours or days may still be counted in, should the clock be set.
local OPEN = 2
local KEPT = {h = 32, l = 49}

local totals, now, sums = base .. 'stats:t', server_ms(), {}

local function sum_up(kind, since, till, into)
  for _, flat in ipairs(history(kind, till, math.max(0, till - since + 1))) do
    for i = 1, #flat, 2 do
      local n = whole(flat[i + 1])
      local field = string.match(flat[i], kind == 'l' and '^[wr]%d%d?$' or '^%d+([re])$')
      if field and n and n > 0 then
        into[field] = (into[field] or 0) + n
      end
    end
  end
end

-- Moves what is over into the totals, and gathers the rest.
local function close_off(kind, mark)
  local running = math.floor(now / KEPT_PER[kind])
  local closed = math.max(whole(try('HGET', totals, mark)) or 0, running - KEPT[kind])
  local over = running - OPEN
  -- Not under a full memory, nor over a foreign key of another type: then nothing is moved.
  if over > closed and not (type(try('HSET', totals, mark, over)) == 'table') then
    local past = {}
    sum_up(kind, closed + 1, over, past)
    for field, n in pairs(past) do
      if type(try('HINCRBY', totals, field, string.format('%.0f', n))) ~= 'number' then
        call('HSET', totals, field, string.format('%.0f', n))
      end
    end
    closed = over
  end
  sum_up(kind, closed + 1, running, sums)
end

close_off('h', 'day')
close_off('l', 'hour')
local kept = try('HGETALL', totals)
for i = 1, kept.err and 0 or #kept, 2 do
  local n = whole(kept[i + 1])
  if n and n > 0 and string.find(kept[i], '^[erw]%d*$') then
    sums[kept[i]] = (sums[kept[i]] or 0) + n
  end
end
local flat = {}
for field, n in pairs(sums) do
  flat[#flat + 1], flat[#flat + 2] = field, string.format('%.0f', n)
end
local function ended(what)
  return whole(try('HGET', base .. 'metrics:' .. what, 'count')) or 0
end
return tidied({ended('completed'), ended('failed'), ended('cancelled'), flat})
