-- What was counted over time, as lib/stats keeps it.
--
-- KEYS  1 base
-- ARGV  1 'm', 'h' or 'l'  2 begin with the key so many before the running one  3 so many keys
-- Reply 1 the server's now (Unix ms)  2 number of the first key
--       3 fields of that key and of those before it, each a flat list
-- @splice lib/history
-- @splice lib/tidy

local now = server_ms()
local number = math.floor(now / KEPT_PER[ARGV[1]]) - ARGV[2]
return tidied({now, number, history(ARGV[1], number, tonumber(ARGV[3]))})
