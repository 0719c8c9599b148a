#!lua flags=allow-oom
-- Stops claiming. Jobs in hand finish; the backlog is not touched.
--
-- KEYS  1 base
-- Reply 1 where the queue was not paused before, else 0
-- @splice lib/announce

local changed = call('HSET', base .. 'meta', 'paused', '1')
if changed == 1 then
  announce('paused', '')
end
return changed
