-- The server collects what scripts leave behind at every fiftieth call, all of it in that one call. A
-- script that makes much of it collects a part itself, so that no call takes much longer than another.
local function tidied(reply)
  collectgarbage('step', 50)
  return reply
end
