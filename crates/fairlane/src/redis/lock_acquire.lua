-- Grants a free lock. KEYS[1] hash: o: owner's ticket, x: end of the lease, t: last token, e: owner whose lease ended,
-- a:<ticket>: given up before it came.
local key, ticket, lease, seen = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
-- How long a free lock is remembered, in ms.
local IDLE = 600000

local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local f = redis.call('HMGET', key, 'o', 'x', 't', 'a:' .. ticket)
local owner, ends, token = f[1], tonumber(f[2] or 0), tonumber(f[3] or 0)

if f[4] then
  return { 'taken', 0 }
end
if owner == ticket and ends > now then
  redis.call('HSET', key, 'x', now + lease)
  redis.call('PEXPIRE', key, IDLE + math.ceil(lease / 1000))
  return { 'granted', token }
end
if owner and ends > now then
  return { 'taken', ends - now }
end
token = math.max(now, token + 1, seen + 1)
if owner then
  redis.call('HSET', key, 'o', ticket, 'x', now + lease, 't', token, 'e', owner)
else
  redis.call('HSET', key, 'o', ticket, 'x', now + lease, 't', token)
end
redis.call('PEXPIRE', key, IDLE + math.ceil(lease / 1000))
return { 'granted', token }
