-- Who stands at a place, and where that is: entry, how many are ahead (-1 if its turn has come, -2 if it has left), all who
-- wait, pace.
local place = ARGV[4]
local fields = redis.call('HMGET', hash, 'sq', 'fg', 'pace', 'ep', 'ag')
if not fields[1] then
  return {}
end
local last, deciding = tonumber(fields[1]), tonumber(fields[2] or 0)
local epoch, number = place_of(place)

local function found(entry, ahead)
  return { entry, ahead, waiting() + deciding, fields[3] or '' }
end

local entry, index = find_guest(place, last)
if entry then
  local ahead = index - redis.call('ZCOUNT', gone, '-inf', '(' .. number)
  return found(entry, deciding + ahead + redis.call('ZLEXCOUNT', old, '-', '(' .. sortable(epoch, number)))
end
entry = find_old(place)
if entry then
  local ahead, head = redis.call('ZRANK', old, entry), redis.call('LINDEX', guests, 0)
  if head and sortable(place_of(head)) < string.sub(entry, 1, 26) then
    -- A copy took over that still knew those in front; what it gave out since is behind.
    local to = epoch < tonumber(fields[4]) and math.min(number, tonumber(fields[5] or 0) + 1) or number
    local length = redis.call('LLEN', guests)
    local before = math.max(math.min(to - (last - length + 1), length), 0)
    ahead = ahead + before - redis.call('ZCOUNT', gone, '-inf', '(' .. to)
  end
  return found(string.sub(entry, 27), deciding + ahead)
end
entry = redis.call('GET', left_key(place))
if entry then
  return found(entry, -2)
end
for _, drawn in ipairs(redis.call('LRANGE', flight, 0, -1)) do
  if stands(drawn, place) then
    return found(drawn, -1)
  end
end
for ahead, owner in ipairs(redis.call('LRANGE', owners, 0, -1)) do
  if stands(owner, place) then
    return found(owner, ahead - 1)
  end
end
return {}
