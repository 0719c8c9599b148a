-- What happened to jobs per minute, or per hour, up to now.
--
-- KEYS  1 base
-- ARGV  1 'minute' or 'hour'  2 how many of them, the running one included
-- Reply 1 the first one's start (Unix ms)
--       2 five numbers for each: completed, failed (dead), cancelled, retried, enqueued
-- @splice lib/stats

local kind, step, per_key = 'm', MINUTE_MS, 60
if ARGV[1] == 'hour' then
  kind, step, per_key = 'h', HOUR_MS, 24
end
local last = math.floor(server_ms() / step)
local first = last - tonumber(ARGV[2]) + 1

local figures, read = {}, nil
for slot = first, last do
  local key, within = math.floor(slot / per_key), slot % per_key
  if not read or within == 0 then
    read = {}
    local flat = try('HGETALL', stats_key(kind, key))
    for i = 1, #flat, 2 do
      read[flat[i]] = flat[i + 1]
    end
  end
  for _, letter in ipairs({'c', 'f', 'x', 'r', 'e'}) do
    figures[#figures + 1] = whole(read[within .. letter]) or 0
  end
end
return {first * step, figures}
