-- Moves a job that waits or is in hand to another lane, or to the flat set.
--
-- KEYS  1 base
-- ARGV  1 id  2 lane, or '' for the flat set
-- Reply 'moved', 'noop' where it is there, or 'gone'
-- Errors EMQSTATE the job neither waits nor is in hand
-- @splice lib/release

local id, lane = ARGV[1], ARGV[2]
local row = read_row(id, 'group', 'priority')
if not row then
  return 'gone'
end
local from = row[2] or ''
local held = call('ZSCORE', base .. 'active', id)
if not held and not call('ZSCORE', base .. 'pending', id)
    and not (from ~= '' and try('ZSCORE', lane_key(from), id)) then
  return redis.error_reply('EMQSTATE neither waiting nor in hand')
end
if from == lane then
  return 'noop'
end
-- A key of another type in the place it goes to is met before it has left its own.
call('ZCARD', lane ~= '' and lane_key(lane) or base .. 'pending')

local function name_lane()
  if lane == '' then
    call('HDEL', row_key(id), 'group')
  else
    call('HSET', row_key(id), 'group', lane)
  end
end

if held then
  name_lane()
  if from ~= '' then
    lane_in_hand(from, -1)
    settle_ring(from)
  end
  if lane ~= '' then
    lane_in_hand(lane, 1)
    settle_ring(lane)
  end
else
  unplace(id, row[2])
  name_lane()
  place(lane ~= '' and lane, row[3], id)
  ring_wake(1)
end
return 'moved'
