-- Frees the lock, if it is the ticket's. The token stays, so that it goes on growing.
local key, ticket, expected, resent = KEYS[1], ARGV[1], ARGV[2], ARGV[3] ~= '0'
local f = redis.call('HMGET', key, 'o', 'x', 't', 'e')
if f[1] == ticket then
  local t = redis.call('TIME')
  redis.call('HDEL', key, 'o', 'x')
  return tonumber(f[2]) > t[1] * 1000000 + t[2] and 'released' or 'expired'
end
if expected == '1' then
  -- Nobody knows whether its acquire has come: if it comes later, it finds this. It happens once in a while, and a
  -- few of them are enough to remember.
  if redis.call('HLEN', key) > 64 then
    for _, field in ipairs(redis.call('HKEYS', key)) do
      if string.sub(field, 1, 2) == 'a:' then
        redis.call('HDEL', key, field)
      end
    end
  end
  redis.call('HSET', key, 'a:' .. ticket, 1)
  if redis.call('PTTL', key) < 600000 then
    redis.call('PEXPIRE', key, 600000)
  end
  return 'released'
end
-- What an earlier sending of this has released is released; anything else was lost.
return (resent and f[3] and f[4] ~= ticket) and 'released' or 'expired'
