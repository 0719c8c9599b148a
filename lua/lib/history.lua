-- @splice lib/stats

-- What one key holds, in ms.
local KEPT_PER = {m = HOUR_MS, h = DAY_MS, l = HOUR_MS}

-- The fields of some keys, the latest first.
local function history(kind, number, keys)
  local fields = {}
  for i = 1, keys do
    local flat = try('HGETALL', stats_key(kind, number - i + 1))
    fields[i] = flat.err and {} or flat
  end
  return fields
end
