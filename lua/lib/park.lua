-- @splice lib/ring

-- Parks a job until `score` (Unix ms). A worker parked for longer learns of an earlier time.
local function park(id, score)
  call('ZADD', base .. 'schedule', score, id)
  if call('ZRANGE', base .. 'schedule', 0, 0)[1] == id then
    ring_wake(1)
  end
end
