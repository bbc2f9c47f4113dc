-- Passes if fewer than limit passed in the window that ends now and nobody waits in front; otherwise says when.
-- passed zset: the last `limit` passes by time; line zset: who waits, by order; until zset: how long their turn is kept.
local passed, line, kept = KEYS[1], KEYS[2], KEYS[3]
local ticket, limit, window, patience, late = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]

local before = redis.call('ZSCORE', passed, ticket)
if before then
  return { 'passed', tonumber(before) }
end
for _, gone in ipairs(redis.call('ZRANGEBYSCORE', kept, '-inf', now, 'LIMIT', 0, 100)) do
  redis.call('ZREM', kept, gone)
  redis.call('ZREM', line, gone)
end
-- Passes that lie further ahead than a window were counted by a clock that has since been set back.
redis.call('ZREMRANGEBYSCORE', passed, now + window + 1, '+inf')

local used = redis.call('ZCOUNT', passed, '(' .. string.format('%.0f', now - window), '+inf')
local free = math.max(limit - used, 0)
local rank = redis.call('ZRANK', line, ticket)
local place = rank or redis.call('ZCARD', line)
local keep = math.ceil(window / 1000) + 60000

if place < free then
  if rank then
    redis.call('ZREM', line, ticket)
    redis.call('ZREM', kept, ticket)
  end
  redis.call('ZADD', passed, now, ticket)
  redis.call('ZREMRANGEBYRANK', passed, 0, -limit - 1)
  redis.call('PEXPIRE', passed, keep)
  return { 'passed', now }
end

-- Everybody in front takes one; the window then repeats, limit by limit.
local behind = place - free
local index = redis.call('ZCARD', passed) - used + behind % limit
local freed = redis.call('ZRANGE', passed, index, index, 'WITHSCORES')[2]
local due = (freed or now) + window - now + window * math.floor(behind / limit)
if due < 1 then
  due = 1
end
if patience <= 0 or due > patience then
  if rank then
    redis.call('ZREM', line, ticket)
    redis.call('ZREM', kept, ticket)
  end
  return { 'refused', due }
end
if not rank then
  local last = redis.call('ZRANGE', line, -1, -1, 'WITHSCORES')[2]
  redis.call('ZADD', line, math.max(now, (last or 0) + 1), ticket)
end
redis.call('ZADD', kept, now + due + late, ticket)
redis.call('PEXPIRE', line, math.ceil(due / 1000) + keep)
redis.call('PEXPIRE', kept, math.ceil(due / 1000) + keep)
return { 'wait', due }
