-- The claim on a unique key: `de:<key>` names the job that holds it. A key that only time frees
-- stands in `throttled` too, scored with its end (Unix ms).
-- @splice lib/base

local function throttled(key)
  return type(try('ZSCORE', base .. 'throttled', key)) == 'string'
end

-- Frees the key of a job that ends, only while the key still names it.
local function free_unique(id, key)
  if key and try('GET', base .. 'de:' .. key) == id and not throttled(key) then
    call('DEL', base .. 'de:' .. key)
  end
end
