-- @splice lib/base

-- The byte order of ids, which is that of minting; `<` would follow the locale of the server.
local function sorts_before(a, b)
  for i = 1, math.min(#a, #b) do
    local x, y = string.byte(a, i), string.byte(b, i)
    if x ~= y then
      return x < y
    end
  end
  return #a < #b
end

-- The rank behind a score and a member, which need not be there any more.
local function rank_behind(set, score, member)
  local low = call('ZCOUNT', set, '-inf', '(' .. score)
  local high = call('ZCOUNT', set, '-inf', score)
  while low < high do
    local middle = math.floor((low + high) / 2)
    if sorts_before(member, call('ZRANGE', set, middle, middle)[1]) then
      high = middle
    else
      low = middle + 1
    end
  end
  return low
end
