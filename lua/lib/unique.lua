-- Who holds a unique key, and taking it.
-- @splice lib/free
-- @splice lib/where

local HOLDING = {pending = true, active = true, scheduled = true, awaiting_children = true}
-- Each claim for a time clears away so many that are over, so the index stays as long as it must.
local TRIM = 10

local function trim_throttled(now, limit)
  local over = try('ZRANGE', base .. 'throttled', '-inf', now, 'BYSCORE', 'LIMIT', 0, limit)
  if #over > 0 then
    call('ZREM', base .. 'throttled', unpack(over))
  end
end

-- The job that holds a key, and its state; nil where the key is free. A job that ended or was lost
-- without freeing its key does not hold it.
local function unique_holder(key)
  local holder = try('GET', base .. 'de:' .. key)
  if type(holder) ~= 'string' then
    return nil
  end
  local state = read_row(holder) and state_of(holder)
  if HOLDING[state] or throttled(key) then
    return holder, state
  end
  return nil
end

-- ttl_ms 0 is for ever; held_until is done, started or ttl.
local function hold_unique(id, key, ttl_ms, held_until, now)
  if ttl_ms > 0 then
    call('SET', base .. 'de:' .. key, id, 'PX', ttl_ms)
  else
    call('SET', base .. 'de:' .. key, id)
  end
  if held_until == 'ttl' then
    trim_throttled(now, TRIM)
    try('ZADD', base .. 'throttled', now + ttl_ms, key)
  else
    try('ZREM', base .. 'throttled', key)
  end
end
