-- Meets a key of another type in the place of a set while nothing has been moved yet: a job that has
-- left one set and cannot enter another would stand nowhere.
-- @splice lib/base

local JOB_SETS = {'pending', 'active', 'schedule', 'dead'}

local function refuse_foreign(sets)
  for _, set in ipairs(sets) do
    call('ZCARD', base .. set)
  end
end
