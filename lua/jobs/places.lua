-- Where jobs of one state stand: for finding a rank in several queues together.
--
-- KEYS  1 base
-- ARGV  1 set below the base: pending active schedule dead outcomes
--       2 score, 3 member to find the rank behind; or '', ''
--       4 first rank  5 last rank, of the places to tell
-- Reply 1 how many there are  2 the rank  3 the places: ids and scores, flat
-- @splice lib/behind

local set = base .. ARGV[1]
return {
  call('ZCARD', set),
  ARGV[2] == '' and 0 or rank_behind(set, ARGV[2], ARGV[3]),
  call('ZRANGE', set, ARGV[4], ARGV[5], 'WITHSCORES'),
}
