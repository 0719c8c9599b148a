-- What happened to jobs, as numbers: gathered while they move and written by `finish`. Each key of
-- `stats` ends by itself:
--   stats:m:<hour>  HASH <minute><letter>  per minute, for a day
--   stats:h:<day>   HASH <hour><letter>    per hour, for a month
--   stats:l:<hour>  HASH w<n>, r<n>        how many waited, and ran, for a time of bucket n; two days
-- Minutes count within their hour and hours within their day; hours and days count from 1970.
-- Letters: c completed, f failed, x cancelled, r retried, e enqueued.
-- @splice lib/base

local MINUTE_MS = 60000
local HOUR_MS = 60 * MINUTE_MS
local DAY_MS = 24 * HOUR_MS
-- Bucket n holds times from 2^(n/2) ms to below 2^((n+1)/2) ms; the first starts at 0, the last
-- (from some nine days on) has no end.
local LAST_BUCKET = 59

local counted, observed = {}, {w = {}, r = {}}

-- kind is 'w' for a wait or 'r' for a run.
local function observe(kind, ms)
  local fraction, exponent = math.frexp(ms < 1 and 1 or ms)
  local bucket = 2 * exponent - (fraction * fraction < 0.5 and 2 or 1)
  bucket = math.min(bucket, LAST_BUCKET)
  observed[kind][bucket] = (observed[kind][bucket] or 0) + 1
end

local function observe_run(started_at, now)
  local started = whole(started_at)
  if started then
    observe('r', now - started)
  end
end

local function stats_key(kind, number)
  return base .. 'stats:' .. kind .. ':' .. number
end

local function write_stats(now)
  local function add(key, field, n, ttl_ms)
    if try('HINCRBY', key, field, n) == n then
      try('PEXPIRE', key, ttl_ms, 'NX')
    end
  end
  local hour, day = math.floor(now / HOUR_MS), math.floor(now / DAY_MS)
  local minute_of_hour = math.floor(now % HOUR_MS / MINUTE_MS)
  local letters = {completed = 'c', failed = 'f', cancelled = 'x', retried = 'r', enqueued = 'e'}
  for what, n in pairs(counted) do
    if what ~= 'enqueued' and what ~= 'retried' then
      try('HINCRBY', base .. 'metrics:' .. what, 'count', n)
    end
    local letter = letters[what]
    if letter then
      add(stats_key('m', hour), minute_of_hour .. letter, n, 25 * HOUR_MS)
      add(stats_key('h', day), hour % 24 .. letter, n, 32 * DAY_MS)
    end
  end
  for kind, buckets in pairs(observed) do
    for bucket, n in pairs(buckets) do
      add(stats_key('l', hour), kind .. bucket, n, 49 * HOUR_MS)
    end
  end
end
at_end[#at_end + 1] = write_stats

local function count(what, n)
  counted[what] = (counted[what] or 0) + n
end
