-- Enters a group in the list of those that are active, and drops those that no longer are.
local t = redis.call('TIME')
local KEPT = 900
redis.call('ZADD', KEYS[1], t[1], ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', t[1] - KEPT)
redis.call('EXPIRE', KEYS[1], KEPT)
return 1
