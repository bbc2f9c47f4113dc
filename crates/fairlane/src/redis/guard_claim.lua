-- Claims a name for an owner unless another has it.
local owner = redis.call('GET', KEYS[1])
if not owner then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return { 'claimed' }
elseif owner == ARGV[1] then
  return { 'claimed' }
end
return { 'held', owner, redis.call('PTTL', KEYS[1]) }
