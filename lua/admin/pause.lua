-- Stops claiming. Jobs in hand finish; the backlog is not touched.
--
-- KEYS  1 base
-- Reply 1 where the queue was not paused before, else 0
-- @splice lib/base

return call('HSET', base .. 'meta', 'paused', '1')
