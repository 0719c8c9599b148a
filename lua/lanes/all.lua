-- A page of the lanes that have jobs, jobs in hand or settings.
--
-- KEYS  1 base
-- ARGV  1 '' or the place to go on from
-- Reply 1 the place to go on from, '' at the end; then lists with a value for each lane:
--       2 name  3 how many wait  4 1 where it is in the ring  5 1 where it is paused
--       6 in hand  7 limit  8 weight, each of them null where there is none
-- @splice lib/lanes

local LANES = 250

local names, is_in_ring, place = lanes_from(ARGV[1], LANES, ALL_BESIDE_RING)

local function of_each(command, key)
  local values = #names > 0 and try(command, base .. key, unpack(names)) or {}
  return values.err and {} or values
end

local depths, in_ring = {}, {}
for i = 1, #names do
  depths[i], in_ring[i] = lane_depth(names[i]), is_in_ring[names[i]] or 0
end
return {
  place, names, depths, in_ring, of_each('SMISMEMBER', 'paused'),
  of_each('HMGET', 'gactive'), of_each('HMGET', 'glimit'), of_each('HMGET', 'gweight'),
}
