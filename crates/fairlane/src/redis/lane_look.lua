-- The lane as it is.
local fields = redis.call('HMGET', hash, 'bn', 'sq', 'fg', 'pace', 'ep')
if not fields[1] then
  return {}
end
if not is_empty() then
  keep(false)
end
local reply = {
  tonumber(fields[1]), tonumber(fields[5]), tonumber(fields[2]), redis.call('LLEN', guests), redis.call('ZCARD', old), tonumber(fields[3] or 0),
  redis.call('EXISTS', runner), fields[4] or ''
}
for _, number in ipairs(redis.call('ZRANGE', gone, 0, -1)) do
  reply[#reply + 1] = number
end
for _, entry in ipairs(redis.call('ZRANGE', old, 0, -1)) do
  reply[#reply + 1] = string.match(string.sub(entry, 27), '^%S+')
end
return reply
