-- Brings a dead or cancelled job back to where it came from, with a fresh budget of attempts. The
-- token goes on growing.
--
-- KEYS  1 base
-- ARGV  1 id
-- Reply 1, or 0 where there is no such job
-- Errors EMQSTATE 'not dead': it is neither dead nor cancelled
-- @splice lib/release

local id = ARGV[1]
local key = row_key(id)
if not read_row(id) then
  if try('HGET', key .. ':outcome', 'state') ~= 'cancelled' then
    if call('EXISTS', key .. ':outcome') == 1 then
      return redis.error_reply('EMQSTATE not dead')
    end
    return 0
  end
  call('RENAME', key .. ':outcome', key)
  call('PERSIST', key)
  call('PERSIST', key .. ':logs')
  call('ZREM', base .. 'outcomes', id)
elseif call('ZREM', base .. 'dead', id) == 1 then
  call('ZREM', base .. 'died', id)
else
  return redis.error_reply('EMQSTATE not dead')
end
local row = read_row(id, 'group', 'priority')
call('HSET', key, 'state', 'pending', 'since', server_ms(), 'attempts_base', row[1])
call('HDEL', key, 'last_error', 'stalled', 'cancel', 'finished_at', 'result')
place(id, row[2], row[3])
ring_wake(1)
announce('reprocessed', id, 'lane', row[2])
return 1
