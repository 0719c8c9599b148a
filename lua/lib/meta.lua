-- @splice lib/base

local meta_fields

-- The fields of `meta` that bound a claim, and whether events are published, read once per transition.
local function read_meta()
  meta_fields = meta_fields or try('HMGET', base .. 'meta', 'paused', 'concurrency', 'max', 'period',
    'turns', 'share', 'events')
  return meta_fields
end
