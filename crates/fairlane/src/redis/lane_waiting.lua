-- How many guests wait in each lane of a group.
local base, reply = KEYS[1], {}
for i = 1, tonumber(ARGV[1]) do
  local lane = ARGV[i + 1]
  reply[i] = redis.call('LLEN', base .. ':guests:' .. lane) - redis.call('ZCARD', base .. ':gone:' .. lane)
    + redis.call('ZCARD', base .. ':old:' .. lane)
end
return reply
