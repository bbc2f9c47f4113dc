-- A client's sign of life for all its tickets in this line, and the look that makes up for a lost wake-up: tells which
-- of its tickets are called, and calls the next where somebody died.
local client, capacity, liveness, channel = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]

local line = look_up('')
if not line.ep then
  return { 0 }
end
local now = clock()
redis.call('HSET', base, 'c:' .. client, now + liveness)
tidy(now)
advance(line, now, capacity, liveness, channel, '')
redis.call('HSET', base, 'us', line.us)
prolong(base, IDLE)
redis.call('PEXPIRE', queue, IDLE)
local answer = { tonumber(line.ep) }
for _, ticket in ipairs(redis.call('ZRANGE', called, 0, BATCH - 1)) do
  local _, _, _, _, owner = parse(redis.call('HGET', base, 't:' .. ticket))
  if owner == client then
    answer[#answer + 1] = ticket
  end
end
return answer
