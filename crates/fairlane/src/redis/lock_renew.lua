-- Extends the lease, if it is still the ticket's. Where the lock was forgotten, puts it back if asked to.
local key, ticket, lease, token, adopt = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local f = redis.call('HMGET', key, 'o', 'x', 't')
local owner, ends = f[1], tonumber(f[2] or 0)

if not f[3] then
  if adopt ~= '1' then
    return { 'forgotten' }
  end
  redis.call('HSET', key, 'o', ticket, 'x', now + lease, 't', token)
elseif owner == ticket and ends > now then
  redis.call('HSET', key, 'x', now + lease)
else
  return { 'lost' }
end
redis.call('PEXPIRE', key, 600000 + math.ceil(lease / 1000))
return { 'renewed', 0 }
