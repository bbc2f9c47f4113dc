-- Lanes of a group with somebody in them and no runner. Of very many, some; others the next time.
local reply = {}
for _, lane in ipairs(redis.call('SRANDMEMBER', KEYS[1] .. ':busy', ARGV[1])) do
  if redis.call('EXISTS', KEYS[1] .. ':runner:' .. lane) == 0 then
    reply[#reply + 1] = lane
  end
end
return reply
