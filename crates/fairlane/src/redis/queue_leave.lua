-- Takes a ticket out of the line, wherever it stands, and passes on what it held. Repeating it changes nothing.
local ticket, known_ep, expected = ARGV[1], ARGV[2], ARGV[3]
local capacity, liveness, channel, resent = tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6], ARGV[7] ~= '0'

local line, text = read(fields)
local us_before = line.us
if not text then
  if expected == '1' then
    -- Nobody knows whether its enter has come: if it comes later, it finds this.
    local now = clock()
    tidy(now)
    remember(ticket, 'L', now)
    prolong(base, IDLE, not line.ep)
  end
  -- What an earlier sending of this has released is released. Anything else was lost with what Redis forgot.
  return (resent and line.ep == known_ep) and 'released' or 'unknown'
end

local state, permits = parse(text)
if state == 'E' then
  return 'expired'
elseif state == 'L' then
  return 'released'
elseif state == 'H' then
  redis.call('ZREM', held, ticket)
  line.us = line.us - permits
elseif state == 'C' then
  redis.call('ZREM', called, ticket)
  line.us = line.us - permits
elseif state == 'W' then
  redis.call('ZREM', queue, ticket)
elseif state == 'P' then
  redis.call('ZREM', parked, ticket)
  redis.call('ZREM', ends, ticket)
end
redis.call('HDEL', base, 't:' .. ticket)
if redis.call('ZCARD', queue) > 0 then
  advance(line, clock(), capacity, liveness, channel, '')
end
if line.us ~= us_before then
  redis.call('HSET', base, 'us', line.us)
end
return 'released'
