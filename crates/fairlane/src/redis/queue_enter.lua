-- One step of a ticket: enter, claim, come back, step aside. Repeating it changes nothing.
local ticket, client, permits, capacity = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local lease, grace, intent = tonumber(ARGV[5]), ARGV[6], ARGV[7]
local known_ep, known_number, seen = ARGV[8], tonumber(ARGV[9]), tonumber(ARGV[10])
local liveness, longest, channel = tonumber(ARGV[11]), tonumber(ARGV[12]), ARGV[13]

local line, text = read(fields)
local us_before = line.us

local function grant(number)
  line.tk = math.max(now, line.tk + 1, seen + 1)
  redis.call('ZADD', held, now + lease, ticket)
  redis.call('HSET', base, 'ep', line.ep, 'sq', line.sq, 'tk', line.tk, 'us', line.us,
    't:' .. ticket, pack('H', permits, int(line.tk), number, client))
  local keep = IDLE + math.ceil(lease / 1000)
  prolong(base, keep, line.born)
  prolong(held, keep, line.us <= permits)
  return { 'granted', line.tk, tonumber(line.ep) }
end

local restored = known_number > 0 and known_ep ~= line.ep
if not line.ep then
  line.ep, line.sq, line.born = int(now), now, true
  -- Whatever an eviction has left of an earlier life.
  redis.call('DEL', queue, called, held)
  if restored then
    -- The line was forgotten while this ticket stood in it, so there may be a holder that still believes. It has one
    -- lease to report back.
    line.qt = now + lease
  end
end

local number = 0
local state = nil
if text then
  local _, extra
  state, _, extra, number = parse(text)
  if state == 'H' then
    redis.call('ZADD', held, now + lease, ticket)
    prolong(held, IDLE + math.ceil(lease / 1000))
    return { 'granted', tonumber(extra), tonumber(line.ep) }
  elseif state == 'C' then
    redis.call('ZREM', called, ticket)
    return grant(number)
  elseif state == 'E' or state == 'L' then
    return { 'gone' }
  elseif state == 'P' then
    if tonumber(redis.call('ZSCORE', ends, ticket) or 0) < now then
      tidy(now)
      return { 'gone' }
    end
    if intent == 'park' then
      return { 'parked' }
    end
    redis.call('ZREM', parked, ticket)
    redis.call('ZREM', ends, ticket)
  end
elseif restored then
  if intent == 'park' then
    return { 'gone' }
  end
  number = known_number
  line.sq = math.max(line.sq, number)
elseif intent == 'resume' or intent == 'park' then
  return { 'gone' }
elseif line.us + permits <= capacity and line.qt <= now and redis.call('ZCARD', queue) == 0 then
  line.us = line.us + permits
  return grant(0)
end

local function settle()
  if line.us ~= us_before or line.born then
    redis.call('HSET', base, 'ep', line.ep, 'sq', line.sq, 'us', line.us, 'qt', line.qt)
  end
  prolong(base, IDLE, line.born)
end

if intent == 'nowait' then
  advance(line, now, capacity, liveness, channel, '')
  if line.us + permits <= capacity and line.qt <= now and redis.call('ZCARD', queue) == 0 then
    line.us = line.us + permits
    return grant(0)
  end
  settle()
  return { 'busy' }
end

if intent == 'park' then
  redis.call('ZREM', queue, ticket)
  local kept = park(ticket, permits, grace, number, now)
  advance(line, now, capacity, liveness, channel, '')
  settle()
  return { kept and 'parked' or 'gone' }
end

local length = redis.call('ZCARD', queue)
if state ~= 'W' then
  if length >= longest then
    return { 'full' }
  end
  if length == 0 then
    forget_clients()
  end
  if number == 0 then
    line.sq = line.sq + 1
    number = line.sq
  end
  redis.call('ZADD', queue, number, ticket)
end
redis.call('HSET', base, 'sq', line.sq, 'c:' .. client, now + liveness,
  't:' .. ticket, pack('W', permits, grace, number, client))
tidy(now)
if advance(line, now, capacity, liveness, channel, ticket) then
  return grant(number)
end
settle()
redis.call('PEXPIRE', queue, IDLE)
return { 'queued', tonumber(line.ep), number }
