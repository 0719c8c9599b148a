-- Leases a node number to a process, so that no two live ones mint with the same.
--
-- KEYS  1 {emq}:nodes, a hash of node number -> owner and end of the lease (Unix ms)
-- ARGV  1 owner  2 lease in ms  3 the number held before, or the one to try first
-- Reply the number; -1 where all 1024 are leased
local key, owner, first = KEYS[1], ARGV[1], tonumber(ARGV[3])
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)

local taken = {}
local entries = redis.call('HGETALL', key)
for i = 1, #entries, 2 do
  local holder, ends = string.match(entries[i + 1], '^(%w+) (%d+)$')
  if holder and holder ~= owner and tonumber(ends) > now then
    taken[tonumber(entries[i])] = true
  else
    -- Ended, or this owner's own earlier lease.
    redis.call('HDEL', key, entries[i])
  end
end
for step = 0, 1023 do
  local node = (first + step) % 1024
  if not taken[node] then
    redis.call('HSET', key, node, owner .. ' ' .. string.format('%.0f', now + tonumber(ARGV[2])))
    redis.call('PEXPIRE', key, 2 * tonumber(ARGV[2]))
    return node
  end
end
return -1
