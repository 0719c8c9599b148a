-- Meets a key of another type in the place of a set while nothing has been moved yet: a job that has
-- left one set and cannot enter another would stand nowhere.
-- @splice lib/base

local function refuse_foreign_sets()
  for _, set in ipairs({'pending', 'active', 'schedule', 'dead'}) do
    call('ZCARD', base .. set)
  end
end
refuse_foreign_sets()
