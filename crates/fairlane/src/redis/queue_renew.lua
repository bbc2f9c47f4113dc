-- Extends a lease, if it is still held. In a line that was forgotten, puts the grant back if asked to.
local ticket, lease, known_ep, token = ARGV[1], tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4])
local permits, capacity, adopt, client = tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7], ARGV[8]

local now = clock()
local line, text = look_up(ticket)
local keep = IDLE + math.ceil(lease / 1000)

if text then
  if parse(text) ~= 'H' or tonumber(redis.call('ZSCORE', held, ticket) or 0) < now then
    return { 'lost' }
  end
  redis.call('ZADD', held, now + lease, ticket)
  prolong(held, keep)
  prolong(base, keep)
  return { 'renewed', tonumber(line.ep) }
end
if line.ep == known_ep then
  return { 'lost' }
end
if adopt ~= '1' then
  return { 'forgotten' }
end
if line.us + permits > capacity then
  return { 'lost' }
end
if not line.ep then
  line.ep, line.sq, line.born = int(now), now, true
  redis.call('DEL', queue, called, held)
end
line.us = line.us + permits
line.tk = math.max(line.tk, token)
if line.us >= capacity then
  -- Everybody who could have held something has reported.
  line.qt = 0
end
write(ticket, 'H', permits, int(token), 0, client)
redis.call('ZADD', held, now + lease, ticket)
redis.call('HSET', base, 'ep', line.ep, 'sq', line.sq, 'tk', line.tk, 'us', line.us, 'qt', line.qt)
prolong(held, keep, line.us <= permits)
prolong(base, keep, line.born)
return { 'renewed', tonumber(line.ep) }
