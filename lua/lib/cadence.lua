-- Registrations stand in two sets, name -> next run (Unix ms): intervals in `repeat`, where a stock
-- pump finds and fires them too, cron lines in `cron`, which it does not know. What is paused or
-- over stands in neither. `schedules` holds every name that this package registered.
-- @splice lib/base

local CADENCES = {'repeat', 'cron'}

local function record_key(name)
  return base .. 'repeat:' .. name
end

-- The set that the registration belongs to.
local function cadence_set(name)
  return base .. (call('HEXISTS', record_key(name), 'cron') == 1 and 'cron' or 'repeat')
end

-- Ms until the next registration is due, at least 0; -1 where none is.
local function next_run(now)
  local soonest = -1
  for _, set in ipairs(CADENCES) do
    local first = call('ZRANGE', base .. set, 0, 0, 'WITHSCORES')
    if first[2] then
      local ms = math.max(0, math.ceil(tonumber(first[2]) - now))
      soonest = soonest < 0 and ms or math.min(soonest, ms)
    end
  end
  return soonest
end

local function runs_due(now)
  local due = 0
  for _, set in ipairs(CADENCES) do
    due = due + call('ZCOUNT', base .. set, '-inf', now)
  end
  return due
end
