-- The limits of a queue over all its workers. In `meta`:
--   concurrency   so many jobs in hand at once
--   max, period   so many starts within any window of so many ms
-- What is no number above zero is no limit. `rate` lists the starts within the last period (ms on
-- the server's clock), oldest first, so the window slides and has no edge at which twice the rate
-- fits.
-- @splice lib/ring

-- Longest list of starts, whatever a foreign hand asks for.
local RATE_MAX = 100000

local function above_zero(value)
  local n = whole(value)
  return n and n > 0 and n or nil
end

local function start_at(index)
  return whole(try('LINDEX', base .. 'rate', index))
end

-- Forgets the starts that have left the window. Answers how many are in it.
local function starts_within(period, now)
  local rate = base .. 'rate'
  local n = try('LLEN', rate)
  if n == 0 then
    return 0
  end
  local newest = start_at(-1)
  if not newest or newest <= now - period or newest > now + period then
    -- All are over; or a foreign hand wrote here, or the server's clock was set back.
    call('DEL', rate)
    return 0
  end
  if (start_at(0) or 0) > now - period then
    return n
  end
  local gone, last = 0, n - 1
  while gone < last do
    local middle = math.floor((gone + last) / 2)
    if (start_at(middle) or 0) <= now - period then
      gone = middle + 1
    else
      last = middle
    end
  end
  call('LPOP', rate, gone)
  return n - gone
end

local meta_fields

-- The fields of `meta` that bound a claim, read once per transition.
local function read_meta()
  meta_fields = meta_fields or try('HMGET', base .. 'meta', 'paused', 'concurrency', 'max', 'period',
    'turns', 'share')
  return meta_fields
end

-- What limits a claim now:
--   paused
--   room    how many jobs may start now
--   max, period, starts   of the rate, where there is one
--   turns, share          of the rotation, as they stand in meta
local function read_limits(now)
  local meta = read_meta()
  local limits = {paused = meta[1], turns = meta[5], share = meta[6], room = math.huge}
  local concurrency, max, period = above_zero(meta[2]), above_zero(meta[3]), above_zero(meta[4])
  if concurrency then
    limits.room = math.max(0, concurrency - call('ZCARD', base .. 'active'))
  end
  if max and period then
    limits.max, limits.period = math.min(max, RATE_MAX), period
    limits.starts = starts_within(period, now)
    limits.room = math.min(limits.room, math.max(0, limits.max - limits.starts))
  end
  return limits
end

-- Notes n starts.
local function note_starts(limits, n, now)
  if not limits.max or n == 0 then
    return
  end
  local at, times = math.max(now, start_at(-1) or 0), {}
  for i = 1, n do
    times[i] = string.format('%.0f', at)
  end
  call('RPUSH', base .. 'rate', unpack(times))
  call('PEXPIRE', base .. 'rate', at - now + limits.period)
  limits.starts = limits.starts + n
end

-- Ms until the rate lets the next waiting job start, at least 1; -1 where it holds none back. A stock
-- reader finds the same in `limiter`.
local function next_token(limits, now)
  if not limits.max or limits.starts < limits.max then
    return -1
  end
  local leaves = start_at(limits.starts - limits.max) or now
  local ms = math.max(1, leaves + limits.period - now)
  call('SET', base .. 'limiter', limits.max, 'PX', ms)
  return anything_waits() and not limits.paused and ms or -1
end

-- Rings for all that waits, as far as `wake` goes.
local function wake_all()
  local pending, lanes = try('ZCARD', base .. 'pending'), try('LLEN', base .. 'ring')
  ring_wake((type(pending) == 'number' and pending or 0) + (type(lanes) == 'number' and lanes or 0))
end
