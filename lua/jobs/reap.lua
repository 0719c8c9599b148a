-- Returns jobs whose lease has lapsed to their lane or the flat set; their token stays, and no
-- limit buries them.
--
-- KEYS  1 base
-- ARGV  1 at most so many
-- Reply how many were returned
-- @splice lib/recover

return (recover_lapsed(tonumber(ARGV[1]), 0, 0, server_ms()))
