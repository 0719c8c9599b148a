-- The workers that serve the queue.
--
-- KEYS  1 base
-- Reply per worker four values: name, info (JSON), time of the last beat (Unix ms), what it was told
-- @splice lib/workers

local answer = {}
for _, name in ipairs(call('ZRANGE', base .. 'workers', server_ms(), '+inf', 'BYSCORE')) do
  local record = try('HMGET', base .. 'worker:' .. name, 'info', 'beat', 'told')
  if not record.err and record[1] then
    local n = #answer
    answer[n + 1], answer[n + 2], answer[n + 3], answer[n + 4] = name, record[1], record[2], record[3] or ''
  end
end
return answer
