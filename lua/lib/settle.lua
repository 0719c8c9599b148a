-- How a claim ends. Each function is fenced by the token and answers one word:
--   done | scheduled | dead | cancelled | released   it happened
--   stale   the job is held under another token, or no longer claimable under this one
--   gone    there is no such job
-- A lease that lapsed with nobody else having claimed the job since does not void the claim. A job
-- that was asked to be cancelled ends as cancelled whichever way its claim ends, unless it completed.
-- `keep` holds ms and max of outcome records, and dead_ms of dead jobs.
-- @splice lib/outcome

-- Takes the job out of where a claim leaves it. Answers the row, with further fields from the tenth
-- on, or nil and the verdict.
local function take_back(id, token, ...)
  local row = read_row(id, 'group', 'unique', 'lock', 'cancel', 'started_at', 'last_error', ...)
  if not row then
    return nil, 'gone'
  end
  if row[1] ~= token then
    return nil, 'stale'
  end
  local group = row[2] or nil
  if leave_active(id, group, row[4]) or unplace(id, group) then
    if row[5] then
      try('HDEL', base .. 'cancels', id)
      call('HDEL', row_key(id), 'cancel')
    end
    return row
  end
  return nil, 'stale'
end

local function settle_complete(id, token, result, keep, now)
  local row, verdict = take_back(id, token)
  if not row then
    return verdict
  end
  if row[3] then
    free_unique(id, row[3])
  end
  count('completed', 1)
  observe_run(row[6], now)
  announce('completed', id, 'lane', row[2])
  if row[7] then
    call('HDEL', row_key(id), 'last_error')
  end
  conclude(id, 'completed', keep, now, result)
  return 'done'
end

-- The other ways, made when one is first wanted: most calls complete, and each function costs time.
local function other_ways()
  -- @splice lib/park
  -- @splice lib/sound

  -- A row keeps the tail of its history: one JSON text per attempt that did not complete, a line
  -- each, within this many bytes.
  local HISTORY_MAX = 32768

  local function append_history(history, entry)
    history = history and (history .. '\n' .. entry) or entry
    local over = #history - HISTORY_MAX
    local cut = over > 0 and string.find(history, '\n', over, true)
    return cut and string.sub(history, cut + 1) or history
  end

  -- A job that was asked to be cancelled ends instead of going on to wait.
  local function take_back_to_wait(id, token, keep, now, ...)
    local row, verdict = take_back(id, token, ...)
    if row and row[5] then
      conclude_cancelled(id, row[3], row[5], keep, now)
      return nil, 'cancelled'
    end
    return row, verdict
  end

  local ways = {}

  -- Ends a claim whose handler was told to stop and did.
  function ways.cancel(id, token, keep, now, reason)
    local row, verdict = take_back(id, token)
    if not row then
      return verdict
    end
    observe_run(row[6], now)
    conclude_cancelled(id, row[3], row[5] or reason, keep, now)
    return 'cancelled'
  end

  function ways.retry(id, token, keep, now, delay_ms, max_attempts, reason, entry)
    refuse_foreign({'schedule', 'dead'})
    local row, verdict = take_back(id, token, 'attempts_base', 'history')
    if not row then
      return verdict
    end
    local key, attempt = row_key(id), whole(token) - (whole(row[8]) or 0)
    local at = now + tonumber(delay_ms)
    observe_run(row[6], now)
    announce('failed', id, 'lane', row[2], 'attempt', attempt, 'error', reason)
    if entry ~= '' then
      call('HSET', key, 'history', append_history(row[9], entry))
    end
    if row[5] then
      conclude_cancelled(id, row[3], row[5], keep, now)
      return 'cancelled'
    end
    if attempt >= tonumber(max_attempts) then
      bury(id, reason, keep.dead_ms, now, row[3])
      return 'dead'
    end
    call('HSET', key, 'state', 'scheduled', 'last_error', reason)
    park(id, at)
    count('retried', 1)
    announce('retried', id, 'lane', row[2], 'at', at)
    return 'scheduled'
  end

  -- Parks a job in hand until a time of its worker's choosing; the attempt does not count.
  function ways.delay(id, token, keep, now, how, ms)
    refuse_foreign({'schedule'})
    local row, verdict = take_back_to_wait(id, token, keep, now)
    if not row then
      return verdict
    end
    local at = tonumber(ms) + (how == 'in' and now or 0)
    call('HSET', row_key(id), 'state', 'scheduled')
    bump(id, 'attempts_base')
    park(id, at)
    announce('delayed', id, 'lane', row[2], 'at', at)
    return 'scheduled'
  end

  -- Gives the job back to where it came from; the attempt does not count.
  function ways.release(id, token, keep, now)
    refuse_foreign({'pending'})
    local row, verdict = take_back_to_wait(id, token, keep, now, 'priority')
    if not row then
      return verdict
    end
    call('HSET', row_key(id), 'state', 'pending', 'since', now)
    bump(id, 'attempts_base')
    place(row[2], row[8], id)
    ring_wake(1)
    announce('released', id, 'lane', row[2])
    return 'released'
  end

  return ways
end
