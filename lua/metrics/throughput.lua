-- What happened to jobs per minute, or per hour, up to now.
--
-- KEYS  1 base
-- ARGV  1 'minute' or 'hour'  2 how many of them, the running one included
-- Reply 1 the first one's start (Unix ms)
--       2 five numbers for each: completed, failed (dead), cancelled, retried, enqueued
-- @splice lib/figures

return {throughput_of(ARGV[1], tonumber(ARGV[2]), server_ms())}
