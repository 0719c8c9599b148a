-- A job's state and row, or its outcome record.
--
-- KEYS  1 base
-- ARGV  1 id
-- Reply 1 state (see jobs/state)  2 fields and values, flat; empty where there are none
-- @splice lib/where

local id = ARGV[1]
local state = state_of(id)
local row = try('HGETALL', row_key(id))
if row.err or #row == 0 then
  row = try('HGETALL', row_key(id) .. ':outcome')
end
return {state, row.err and {} or row}
