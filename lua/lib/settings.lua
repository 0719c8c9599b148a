-- What an operator or the settings may set of a queue and its lanes. Each takes a number, or '' for
-- none, and wakes workers for what may be claimed now.
-- @splice lib/wake_all

local function set_field(key, field, value)
  if value == '' then
    call('HDEL', base .. key, field)
  else
    call('HSET', base .. key, field, value)
  end
end

local function set_concurrency(n)
  set_field('meta', 'concurrency', n)
  wake_all()
end

local function set_rate(max, period)
  set_field('meta', 'max', max)
  set_field('meta', 'period', period)
  call('DEL', base .. 'limiter')
  if max == '' then
    call('DEL', base .. 'rate')
  end
  wake_all()
end

-- Puts the lane into the ring or out of it after a change, and wakes workers for what it may give.
local function serve_lane(group)
  settle_ring(group)
  if try('SISMEMBER', base .. 'paused', group) ~= 1 then
    ring_wake(math.max(0, math.min(lane_depth(group), lane_headroom(group))))
  end
end

local function set_lane_limit(group, n)
  set_field('glimit', group, n)
  serve_lane(group)
end

local function set_lane_weight(group, n)
  set_field('gweight', group, n)
end
