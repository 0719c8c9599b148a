-- How long jobs waited and ran, as histograms.
--
-- KEYS  1 base
-- ARGV  1 the running clock hour and so many before it
-- Reply bucket (see lib/stats) and number of jobs, flat: 1 of waits  2 of runs
-- @splice lib/stats

local sums = {w = {}, r = {}}
local hour = math.floor(server_ms() / HOUR_MS)
for number = hour - tonumber(ARGV[1]), hour do
  local flat = try('HGETALL', stats_key('l', number))
  for i = 1, #flat, 2 do
    local kind, bucket = string.match(flat[i], '^([wr])(%d%d?)$')
    local n = whole(flat[i + 1])
    if kind and n then
      bucket = tonumber(bucket)
      sums[kind][bucket] = (sums[kind][bucket] or 0) + n
    end
  end
end

local answer = {}
for i, kind in ipairs({'w', 'r'}) do
  answer[i] = {}
  for bucket, n in pairs(sums[kind]) do
    table.insert(answer[i], bucket)
    table.insert(answer[i], n)
  end
end
return answer
