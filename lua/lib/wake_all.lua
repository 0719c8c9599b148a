-- @splice lib/ring

-- Rings for all that waits, as far as `wake` goes.
local function wake_all()
  local pending, lanes = try('ZCARD', base .. 'pending'), try('LLEN', base .. 'ring')
  ring_wake((type(pending) == 'number' and pending or 0) + (type(lanes) == 'number' and lanes or 0))
end
