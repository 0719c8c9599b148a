-- Since when a waiting job may be claimed.
-- @splice lib/base

local ID_EPOCH_MS = 1704067200000

-- The time in a branded id (Unix ms), or nil. The first eight of its base-62 digits tell it to a
-- fraction of a millisecond.
local function minted_ms(id)
  if #id ~= 14 or not string.find(id, '^%u%u%u%w+$') then
    return nil
  end
  local number = 0
  for i = 4, 11 do
    local byte = string.byte(id, i)
    number = number * 62 + byte - (byte >= 97 and 61 or byte >= 65 and 55 or 48)
  end
  return math.floor(number * (62 * 62 * 62 / 4194304)) + ID_EPOCH_MS
end

-- Unix ms, or nil where it cannot be told. A job that never waited before waits since its id was
-- minted; what takes one back to waiting notes it in the row's field `since`, which a peer may not do.
local function claimable_ms(id, attempts, since, started_at)
  local noted, started = whole(since), whole(started_at)
  if noted and noted >= (started or noted) then
    return noted
  end
  return attempts == '0' and minted_ms(id) or nil
end
