-- How long the job that has waited longest has been claimable, as far as a page of the lanes shows.
--
-- KEYS  1 base
-- ARGV  1 '' or the place in the lanes to go on from
-- Reply 1 the place to go on from, '' at the end  2 ms; -1 where none waits
-- @splice lib/figures
-- @splice lib/tidy

local names, _, place = lanes_from(ARGV[1], LANES_LOOKED_INTO, BESIDE_RING)
return tidied({place, oldest_wait(names, ARGV[1], place, server_ms())})
