#!lua flags=allow-oom
-- Starts claiming again and wakes parked workers for what waits.
--
-- KEYS  1 base
-- Reply 1 where the queue was paused before, else 0
-- @splice lib/wake_all
-- @splice lib/announce

local was = call('HDEL', base .. 'meta', 'paused')
wake_all()
if was == 1 then
  announce('resumed', '')
end
return was
