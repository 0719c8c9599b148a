-- The limits of a queue over all its workers. In `meta`:
--   concurrency   so many jobs in hand at once
--   max, period   so many starts within any window of so many ms
-- What is no number above zero is no limit. `rate` lists the starts within the last period (ms on
-- the server's clock), oldest first, so the window slides and has no edge at which twice the rate
-- fits.
-- @splice lib/meta
-- @splice lib/ring

-- Longest list of starts, whatever a foreign hand asks for.
local RATE_MAX = 100000

local function above_zero(value)
  local n = whole(value)
  return n and n > 0 and n or nil
end

-- The window of a rate: how many starts are in it, `note(n)` to add n, and `next()`, see next_token.
local function sliding_window(max, period, now)
  local rate = base .. 'rate'

  local function start_at(index)
    return whole(try('LINDEX', rate, index))
  end

  -- Forgets the starts that have left the window. Answers how many are in it.
  local function starts_within()
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

  local window = {max = max, period = period, starts = starts_within()}

  function window.note(n)
    local at, times = math.max(now, start_at(-1) or 0), {}
    for i = 1, n do
      times[i] = string.format('%.0f', at)
    end
    call('RPUSH', rate, unpack(times))
    call('PEXPIRE', rate, at - now + period)
    window.starts = window.starts + n
  end

  function window.next()
    if window.starts < max then
      return -1
    end
    local leaves = start_at(window.starts - max) or now
    local ms = math.max(1, leaves + period - now)
    call('SET', base .. 'limiter', max, 'PX', ms)
    return ms
  end

  return window
end

-- What limits a claim now:
--   paused
--   room    how many jobs may start now
--   rate    the window, where there is a rate
--   turns, share   of the rotation, as they stand in meta
local function read_limits(now)
  local meta = read_meta()
  local limits = {paused = meta[1], turns = meta[5], share = meta[6], room = math.huge}
  local concurrency = above_zero(meta[2])
  if concurrency then
    limits.room = math.max(0, concurrency - call('ZCARD', base .. 'active'))
  end
  local max, period = above_zero(meta[3]), above_zero(meta[4])
  if max and period then
    max = math.min(max, RATE_MAX)
    limits.rate = sliding_window(max, period, now)
    limits.room = math.min(limits.room, math.max(0, max - limits.rate.starts))
  end
  return limits
end

-- Ms until the rate lets the next waiting job start, at least 1; -1 where it holds none back. A stock
-- reader finds the same in `limiter`.
local function next_token(limits)
  local ms = limits.rate and limits.rate.next() or -1
  return ms > 0 and not limits.paused and anything_waits() and ms or -1
end
