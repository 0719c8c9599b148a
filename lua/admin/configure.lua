-- Applies limits and weights of the settings, each only where the settings say something else than
-- when they were last applied: what an operator has set since stays. meta.settings holds what was
-- applied, JSON.
--
-- KEYS  1 base
-- ARGV  1.. pairs: 'concurrency', n; 'rate', '<max>/<period in ms>'; 'limit:<lane>', n;
--           'weight:<lane>', n. What is left out, and was applied before, is set to none.
-- Reply the names of what changed
-- @splice lib/settings

local noted = call('HGET', base .. 'meta', 'settings')
local readable, applied = pcall(cjson.decode, noted or '{}')
if not readable or type(applied) ~= 'table' then
  applied = {}
end

local function apply(name, value)
  local kind, lane = string.match(name, '^(%a+):(.*)$')
  if name == 'concurrency' then
    set_concurrency(value)
  elseif name == 'rate' then
    local max, period = string.match(value, '^(%d+)/(%d+)$')
    set_rate(max or '', period or '')
  elseif kind == 'limit' then
    set_lane_limit(lane, value)
  elseif kind == 'weight' then
    set_lane_weight(lane, value)
  end
end

local wanted, changed = {}, {}
for i = 1, #ARGV, 2 do
  local name, value = ARGV[i], ARGV[i + 1]
  wanted[name] = value
  if applied[name] ~= value then
    apply(name, value)
    changed[#changed + 1] = name
  end
end
for name in pairs(applied) do
  if type(name) == 'string' and not wanted[name] then
    apply(name, '')
    changed[#changed + 1] = name
  end
end
if #changed > 0 then
  set_field('meta', 'settings', #ARGV > 0 and cjson.encode(wanted) or '')
end
return changed
