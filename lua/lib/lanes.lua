-- Lanes, a page at a time: those in the ring, then those that other keys name, then what has come
-- into the ring meanwhile. Where all fit one page they are read in one step. Otherwise each lane that
-- is there throughout is met, some of them twice, whatever the ring does between the pages.
-- @splice lib/ring

-- Keys that name the lanes that may have jobs and are not in the ring: paused, or at their limit; and
-- those that have jobs in hand or a setting.
local BESIDE_RING = {{'SSCAN', 'paused', 1}, {'HSCAN', 'glimit', 2}}
local ALL_BESIDE_RING = {BESIDE_RING[1], BESIDE_RING[2], {'HSCAN', 'gactive', 2}, {'HSCAN', 'gweight', 2}}

-- How far from its end the ring is searched for the lane that stood there.
local SEARCHED = 10000

-- Answers some `most` lanes, at most twice as many; which of them are in the ring; and the place to go
-- on from, '' at the end.
local function lanes_from(place, most, beside)
  local ring, names, known, in_ring = base .. 'ring', {}, {}, {}
  -- Of the ring, `read` lanes are, up to `last`; the end was at `tail` then.
  local stage, cursor, read, last, tail = 0, '0', 0, false, false
  if place and place ~= '' then
    stage, cursor, read, last, tail = unpack(cmsgpack.unpack(place))
  end
  local first, looked = stage == 0 and not last, 0

  local function note(found, step)
    for i = 1, #found, step do
      looked = looked + 1
      if not known[found[i]] then
        known[found[i]] = true
        names[#names + 1] = found[i]
      end
    end
  end

  -- Answers whether the ring was read to its end. What enters it, and each lane that had its turn, goes
  -- to the end, so all that is not read stands behind `last` until that one itself has had its turn.
  -- Then it is gone, or stands behind `tail`, and all is read again.
  local function read_ring()
    local from = 0
    if last then
      local at = try('LPOS', ring, last, 'MAXLEN', read)
      local last_at = try('LPOS', ring, tail, 'RANK', -1, 'MAXLEN', SEARCHED)
      if type(at) == 'number' and type(last_at) == 'number' and at <= last_at then
        from = at + 1
      end
    end
    local page = try('LRANGE', ring, from, from + most - 1)
    note(page, 1)
    for _, group in ipairs(page) do
      in_ring[group] = 1
    end
    read = from + #page
    if #page > 0 then
      last, tail = page[#page], call('LINDEX', ring, -1)
    else
      last = from > 0 and last
      tail = last
    end
    return #page < most
  end

  repeat
    local over
    if stage == 0 or stage > #beside then
      over = read_ring()
    else
      local scan = beside[stage]
      local found = try(scan[1], base .. scan[2], cursor, 'COUNT', most - looked)
      cursor = found.err and '0' or found[1]
      note(found[2] or {}, scan[3])
      over = cursor == '0'
    end
    if over then
      stage = stage + 1
    end
  until looked >= most or stage > #beside + 1 or (first and stage > #beside)
  if stage > #beside + 1 or (first and stage > #beside) then
    return names, in_ring, ''
  end
  return names, in_ring, cmsgpack.pack({stage, cursor, read, last, tail})
end
