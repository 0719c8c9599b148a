-- Every transition gets the queue's base, `emq:{queue}:`, as KEYS[1] and builds its keys from it,
-- so all of them share the hash tag of a declared key.
local base = KEYS[1]
local call = redis.call
-- For counters and hints: a foreign key of another type in their place must not abort a transition
-- that has begun to move a job.
local try = redis.pcall

local rows = base .. 'job:'

local function row_key(id)
  return rows .. id
end

-- Milliseconds since 1970 on the server's clock, the only clock of a transition.
local function server_ms()
  local time = call('TIME')
  return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end

-- What is gathered while jobs move and written once: every script that moves jobs calls `finish` at
-- its end, which runs what has been put here.
local at_end = {}

local function finish(now)
  for _, write in ipairs(at_end) do
    write(now)
  end
end

-- The reply where a foreign key was in the way of a job: those before it have moved, and count.
local function fault_reply(fault)
  return redis.error_reply(type(fault) == 'table' and fault.err or fault)
end

-- The named fields of a row, or nil where no row of a job stands under the id. A foreign key of
-- another type under the row's name is no row; it must not abort a transition half way.
local function read_row(id, ...)
  local row = try('HMGET', rows .. id, 'attempts', ...)
  if row.err or not row[1] then
    return nil
  end
  return row
end

-- A whole number that fits, or nil: what a foreign hand wrote may be anything.
local function whole(value)
  local n = type(value) == 'string' and string.find(value, '^%-?%d+$') and tonumber(value)
  if n and math.abs(n) < 9007199254740992 then
    return n
  end
  return nil
end

-- Adds one to a counter of a row and answers it. What is not a number there counts as nothing.
local function bump(id, field)
  local n = try('HINCRBY', row_key(id), field, 1)
  if type(n) ~= 'number' then
    call('HSET', row_key(id), field, 1)
    return 1
  end
  return n
end
-- Base ends.
