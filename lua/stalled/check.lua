-- Returns jobs whose lease has lapsed to where they came from, and buries those that keep lapsing.
--
-- KEYS  1 base
-- ARGV  1 at most so many  2 max stalled (0 never buries)  3 keep dead in ms (0 for ever)
--       4 keep outcome records for so many ms  5 keep at most so many
-- Reply how many went back, how many were buried
-- @splice lib/recover

local keep = {dead_ms = tonumber(ARGV[3]), ms = tonumber(ARGV[4]), max = tonumber(ARGV[5])}
local now = server_ms()
local recovered, buried = recover_lapsed(tonumber(ARGV[1]), tonumber(ARGV[2]), keep, now)
finish(now)
return {recovered, buried}
