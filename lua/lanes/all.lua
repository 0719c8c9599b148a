-- A page of the lanes that have jobs, jobs in hand or settings.
--
-- KEYS  1 base
-- ARGV  1 '' or the place to go on from
-- Reply 1 the place to go on from, '' at the end
--       2 lanes  3 how many wait in each  4 for each 1 where it is in the ring
--       5 those that are paused, of others too
--       lanes and values, flat, of others too: 6 in hand  7 limits  8 weights
-- @splice lib/lanes
-- @splice lib/tidy

local LANES = 60
-- What is as small as this is answered whole: there is no faster way to many values of it.
local SMALL = 256

local names, is_in_ring, place = lanes_from(ARGV[1], LANES, ALL_BESIDE_RING)

local function of_each(key, length, whole_of, some_of, with_value)
  local n = try(length, base .. key)
  if type(n) ~= 'number' or #names == 0 then
    return {}
  end
  if n <= SMALL then
    return call(whole_of, base .. key)
  end
  local values, found = call(some_of, base .. key, unpack(names)), {}
  for i, value in ipairs(values) do
    if value and value ~= 0 then
      found[#found + 1] = names[i]
      if with_value then
        found[#found + 1] = value
      end
    end
  end
  return found
end

local function values(key)
  return of_each(key, 'HLEN', 'HGETALL', 'HMGET', true)
end

local depths, in_ring = {}, {}
for i = 1, #names do
  depths[i], in_ring[i] = lane_depth(names[i]), is_in_ring[names[i]] or 0
end
return tidied({
  place, names, depths, in_ring, of_each('paused', 'SCARD', 'SMEMBERS', 'SMISMEMBER', false),
  values('gactive'), values('glimit'), values('gweight'),
})
