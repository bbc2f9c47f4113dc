-- Takes a guest out of the line unless its turn has come.
local place, guard, claim = ARGV[4], ARGV[5], ARGV[6]
local channel, message, tell = ARGV[7], ARGV[8], ARGV[9] ~= '0'
local last = tonumber(redis.call('HGET', hash, 'sq'))
if not last then
  return 0
end
local entry, index = find_guest(place, last)
if entry then
  local _, number = place_of(place)
  redis.call('LSET', guests, index, '')
  redis.call('ZADD', gone, number, number)
  strip(last)
else
  entry = find_old(place)
  if not entry then
    return 0
  end
  redis.call('ZREM', old, entry)
  entry = string.sub(entry, 27)
end
redis.call('SET', left_key(place), entry, 'PX', IDLE)
if tell then
  redis.call('PUBLISH', channel, message)
end
if guard ~= '' and stands(redis.call('HGET', guards, guard), place) then
  redis.call('HDEL', guards, guard)
end
if claim ~= '' and stands(redis.call('GET', claim_base .. claim), place) then
  redis.call('DEL', claim_base .. claim)
end
keep(is_empty())
return 1
