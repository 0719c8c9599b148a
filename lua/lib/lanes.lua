-- Lanes, a page at a time: those in the ring, then those that other keys name, then what has come
-- into the ring meanwhile. Where all fit one page they are of one moment. Otherwise each lane that is
-- there throughout is met, some of them twice, whatever the ring does between the pages.
-- @splice lib/ring

-- Keys that name the lanes that may have jobs and are not in the ring: paused, or at their limit; and
-- those that have jobs in hand or a setting.
local BESIDE_RING = {{'SSCAN', 'paused', 1}, {'HSCAN', 'glimit', 2}}
local ALL_BESIDE_RING = {BESIDE_RING[1], BESIDE_RING[2], {'HSCAN', 'gactive', 2}, {'HSCAN', 'gweight', 2}}

-- How far from its end the ring is searched for the lane that stood there.
local SEARCHED = 10000

-- Answers up to `most` lanes, which of them are in the ring, and the place to go on from, '' at the end.
local function lanes_from(place, most, beside)
  local ring, names, known, in_ring = base .. 'ring', {}, {}, {}
  local stage, over = 0, #beside + 2
  -- Of the ring, `read` lanes are, up to `last`; the end was at `tail` then. A scan may give more than
  -- asked for: `rest`.
  local cursor, read, last, tail, rest = '0', 0, false, false, {}
  local first = not place or place == ''
  if not first then
    stage, cursor, read, last, tail, rest = unpack(cmsgpack.unpack(place))
  end

  local function note(found, step)
    for i = 1, #found, step do
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
    local from, wanted = 0, most - #names
    if last then
      local at = try('LPOS', ring, last, 'MAXLEN', read)
      local tail_at = try('LPOS', ring, tail, 'RANK', -1, 'MAXLEN', SEARCHED)
      if type(at) == 'number' and type(tail_at) == 'number' and at <= tail_at then
        from = at + 1
      end
    end
    local page = try('LRANGE', ring, from, from + wanted - 1)
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
    return #page < wanted
  end

  note(rest, 1)
  while #names < most and stage < over do
    local scan = beside[stage]
    if not scan then
      stage = read_ring() and stage + 1 or stage
    else
      local found = try(scan[1], base .. scan[2], cursor, 'COUNT', most - #names)
      cursor = found[1] or '0'
      note(found[2] or {}, scan[3])
      stage = cursor == '0' and stage + 1 or stage
    end
    if first and stage > #beside then
      stage = over -- all at one moment: nothing can have come meanwhile
    end
  end
  rest = {}
  while #names > most do
    rest[#rest + 1] = table.remove(names)
  end
  if stage == over and #rest == 0 then
    return names, in_ring, ''
  end
  return names, in_ring, cmsgpack.pack({stage, cursor, read, last, tail, rest})
end
