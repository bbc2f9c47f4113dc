-- The common case of leaving, before anything else is even defined: the ticket is held, and nobody is in line.
local fields = redis.call('HMGET', KEYS[1], 'ep', 'sq', 'tk', 'us', 'qt', 't:' .. ARGV[1])
local permits = fields[6] and string.match(fields[6], '^H|(%d+)|')
if permits and redis.call('ZCARD', KEYS[2]) == 0 then
  redis.call('ZREM', KEYS[4], ARGV[1])
  redis.call('HDEL', KEYS[1], 't:' .. ARGV[1])
  redis.call('HSET', KEYS[1], 'us', fields[4] - permits)
  return 'released'
end

