-- Publishes what happened on the queue's channel `events`: one flat JSON object of texts, `event`
-- and `job` first. A queue whose meta field `events` is '0' publishes nothing.
-- @splice lib/meta

local ERROR_MAX = 200
local quotes = {}

-- What is not UTF-8 becomes '?'.
local function escaped(value)
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

-- A JSON text, whatever bytes the value has.
local function quoted(value)
  if type(value) == 'string' and not string.find(value, '%W') then
    return '"' .. value .. '"'
  end
  local text = quotes[value]
  if not text then
    if type(value) == 'number' then
      text = string.format('"%.0f"', value)
    elseif string.find(value, '[^ !#-Z%[%]^-~]') then
      text = escaped(value)
    else
      text = '"' .. value .. '"'
    end
    quotes[value] = text
  end
  return text
end

local function pair(name, value)
  if name == 'error' or name == 'reason' then
    value = string.sub(value, 1, ERROR_MAX)
  end
  return ',"' .. name .. '":' .. quoted(value)
end

local announcing

-- Up to three names and values may follow; one without a value is left out.
local function announce(event, job, a, a_value, b, b_value, c, c_value)
  if announcing == nil then
    announcing = (meta_fields and meta_fields[7] or try('HGET', base .. 'meta', 'events')) ~= '0'
  end
  if announcing then
    try('PUBLISH', base .. 'events', '{"event":"' .. event .. '","job":' .. quoted(job)
      .. (a_value and pair(a, a_value) or '') .. (b_value and pair(b, b_value) or '')
      .. (c_value and pair(c, c_value) or '') .. '}')
  end
end
