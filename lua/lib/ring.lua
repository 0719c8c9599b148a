-- The ring holds exactly the serviceable lanes: non-empty, not paused, below their limit.
-- @splice lib/base

local WAKE_CAP = 64

-- Rings `wake` for n admitted jobs, so that as many parked workers look.
local function ring_wake(n)
  local tokens = {}
  for i = 1, math.min(n, WAKE_CAP) do
    tokens[i] = '1'
  end
  if #tokens > 0 then
    local length = try('LPUSH', base .. 'wake', unpack(tokens))
    if type(length) == 'number' and length > WAKE_CAP then
      call('LTRIM', base .. 'wake', 0, WAKE_CAP - 1)
    end
  end
end

local function lane_key(group)
  return base .. 'g:' .. group .. ':pending'
end

-- How many more jobs of the lane may run at once.
local function lane_headroom(group)
  local set = call('HGET', base .. 'glimit', group)
  local limit = set and tonumber(set)
  if not limit then
    return math.huge
  end
  if limit ~= limit then
    return 0
  end
  return math.floor(limit) - (whole(try('HGET', base .. 'gactive', group)) or 0)
end

-- Puts the lane into the ring or takes it out, whichever the invariant asks for.
local function settle_ring(group)
  local serviceable = call('EXISTS', lane_key(group)) == 1
    and call('SISMEMBER', base .. 'paused', group) == 0
    and lane_headroom(group) > 0
  local present = call('LPOS', base .. 'ring', group)
  if serviceable and not present then
    call('RPUSH', base .. 'ring', group)
    ring_wake(1)
  elseif present and not serviceable then
    call('LREM', base .. 'ring', 0, group)
  end
end
