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

local function anything_waits()
  return call('EXISTS', base .. 'pending', base .. 'ring') > 0
end

local function lane_key(group)
  return base .. 'g:' .. group .. ':pending'
end

-- Counts the lane's jobs in hand; a lane without any has no count.
local function lane_in_hand(group, by)
  local n = try('HINCRBY', base .. 'gactive', group, by)
  if type(n) == 'number' and n <= 0 then
    call('HDEL', base .. 'gactive', group)
  end
end

-- How many more jobs of the lane may run at once.
local function lane_headroom(group)
  local set = try('HGET', base .. 'glimit', group)
  local limit = type(set) == 'string' and tonumber(set)
  if not limit then
    return math.huge
  end
  if limit ~= limit then
    return 0
  end
  return math.floor(limit) - (whole(try('HGET', base .. 'gactive', group)) or 0)
end

-- How many jobs wait in the lane.
local function lane_depth(group)
  local depth = try('ZCARD', lane_key(group))
  return type(depth) == 'number' and depth or 0
end

-- Puts the lane into the ring or takes it out, whichever the invariant asks for.
local function settle_ring(group)
  local serviceable = lane_depth(group) > 0
    and try('SISMEMBER', base .. 'paused', group) ~= 1
    and lane_headroom(group) > 0
  -- Found at once from the end where a claim has just put it.
  local present = try('LPOS', base .. 'ring', group, 'RANK', -1)
  if type(present) == 'table' then
    return -- a foreign key in the ring's place
  end
  if serviceable and not present then
    call('RPUSH', base .. 'ring', group)
    ring_wake(1)
  elseif present and not serviceable then
    call('LREM', base .. 'ring', 0, group)
  end
end
