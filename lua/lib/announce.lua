-- Publishes what happened on the queue's channel `events`: one flat JSON object of texts, `event`
-- and `job` first. A queue whose meta field `events` is '0' publishes nothing.
-- @splice lib/base

local ERROR_MAX = 200

-- A JSON text, whatever bytes the value has: what is not UTF-8 becomes '?'.
local function quoted(value)
  if type(value) == 'number' then
    return string.format('"%.0f"', value)
  end
  if not string.find(value, '[^ !#-Z%[%]^-~]') then
    return '"' .. value .. '"'
  end
  if string.find(value, '[\128-\255]') then
    local bounds = {[224] = {160, 191}, [237] = {128, 159}, [240] = {144, 191}, [244] = {128, 143}}
    value = string.gsub(value, '([%z\1-\255])([\128-\191]*)', function(lead, tail)
      local byte, second = string.byte(lead), string.byte(tail)
      local width = byte < 128 and 0 or byte < 194 and -1 or byte < 224 and 1 or byte < 240 and 2
        or byte < 245 and 3 or -1
      local bound = bounds[byte]
      if width > 0 and #tail >= width and (not bound or (second >= bound[1] and second <= bound[2])) then
        return lead .. string.sub(tail, 1, width) .. string.rep('?', #tail - width)
      end
      return (width == 0 and lead or '?') .. string.rep('?', #tail)
    end)
  end
  return cjson.encode(value)
end

local announcing

-- Further arguments are names and values; one without a value is left out.
local function announce(event, job, ...)
  if announcing == nil then
    announcing = try('HGET', base .. 'meta', 'events') ~= '0'
  end
  if not announcing then
    return
  end
  local message = '{"event":"' .. event .. '","job":' .. quoted(job)
  for i = 1, select('#', ...), 2 do
    local name, value = select(i, ...)
    if value then
      if name == 'error' or name == 'reason' then
        value = string.sub(value, 1, ERROR_MAX)
      end
      message = message .. ',"' .. name .. '":' .. quoted(value)
    end
  end
  try('PUBLISH', base .. 'events', message .. '}')
end
