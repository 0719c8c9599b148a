-- Who serves the queue. A worker that beats is in `workers`, scored with the end of its entry, and
-- has a record `worker:<name>` that ends by itself.
-- @splice lib/base

local WORKER_TTL_MS = 15000

-- Notes a beat and answers what the worker has been told: 'quiet', 'stop' or ''.
local function note_worker(name, info, now)
  local key = base .. 'worker:' .. name
  call('HSET', key, 'info', info, 'beat', now)
  call('PEXPIRE', key, WORKER_TTL_MS)
  call('ZADD', base .. 'workers', now + WORKER_TTL_MS, name)
  call('ZREMRANGEBYSCORE', base .. 'workers', '-inf', now)
  return call('HGET', key, 'told') or ''
end
