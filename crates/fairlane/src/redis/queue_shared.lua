-- What the scripts of a line share; put in front of each of them.
--
-- base    hash  ep: life of the line, sq: last number (starts at the time, so that later lives
--               give out higher ones), tk: last token, us: permits out, qt: no grants before, pe: does not end before,
--               c:<client>: alive until, t:<ticket>: state|permits|grace or token|number|client
-- queue   zset  waiting tickets by number
-- called  zset  tickets whose turn it is, by the time until which they may claim it
-- held    zset  granted tickets, by the end of the lease
-- parked  zset  tickets that stepped aside, by number
-- ends    zset  when a parked ticket, or the memory of an ended one, is dropped
--
-- A state is W(aiting), C(alled), H(eld), P(arked), E(xpired), L(eft before it came). Times are µs of this server.
-- Numbers this large are put into strings by int() only: Lua's own conversion keeps 14 digits.

local base, queue, called, held, parked, ends = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]

-- An untouched line is forgotten after this many ms.
local IDLE = 600000
-- How long it is remembered that a ticket ended, in µs.
local REMEMBERED = 60000000
-- Housekeeping per call is bounded; the next call goes on.
local BATCH = 100

local function int(n)
  return string.format('%.0f', n)
end

local function clock()
  local t = redis.call('TIME')
  return t[1] * 1000000 + t[2]
end

local function read(f)
  local line = {
    ep = f[1], sq = tonumber(f[2] or 0), tk = tonumber(f[3] or 0), us = tonumber(f[4] or 0), qt = tonumber(f[5] or 0)
  }
  return line, f[6]
end

local function look_up(ticket)
  return read(redis.call('HMGET', base, 'ep', 'sq', 'tk', 'us', 'qt', 't:' .. ticket))
end

local function parse(text)
  text = text or ''
  local state, permits, extra, number, client = string.match(text, '^(%a)|(%d+)|(%d+)|(%d+)|(.*)$')
  if not state then
    return string.sub(text, 1, 1)
  end
  return state, tonumber(permits), extra, tonumber(number), client
end

-- A key's life may be prolonged but not cut short by a visitor with a shorter lease. `GT` never touches a key that has no
-- end yet, so a key that may be new is given one first.
local function prolong(key, ms, fresh)
  if fresh then
    redis.call('PEXPIRE', key, ms)
  else
    redis.call('PEXPIRE', key, ms, 'GT')
  end
end

local function pack(state, permits, extra, number, client)
  return state .. '|' .. permits .. '|' .. extra .. '|' .. int(number) .. '|' .. client
end

local function write(ticket, ...)
  redis.call('HSET', base, 't:' .. ticket, pack(...))
end

local function remember(ticket, state, now)
  redis.call('HSET', base, 't:' .. ticket, state)
  redis.call('ZADD', ends, now + REMEMBERED, ticket)
  redis.call('PEXPIRE', ends, 2 * IDLE)
end

local function park(ticket, permits, grace, number, now)
  if tonumber(grace) <= 0 then
    redis.call('HDEL', base, 't:' .. ticket)
    return false
  end
  write(ticket, 'P', permits, grace, number, '')
  redis.call('ZADD', parked, number, ticket)
  redis.call('ZADD', ends, now + grace, ticket)
  -- A grace is shorter than IDLE, so this never cuts one short.
  redis.call('PEXPIRE', parked, 2 * IDLE)
  redis.call('PEXPIRE', ends, 2 * IDLE)
  return true
end

-- Drops what has reached its end.
local function tidy(now)
  for _, ticket in ipairs(redis.call('ZRANGEBYSCORE', ends, '-inf', now, 'LIMIT', 0, BATCH)) do
    redis.call('ZREM', ends, ticket)
    redis.call('ZREM', parked, ticket)
    redis.call('HDEL', base, 't:' .. ticket)
  end
end

-- Where nobody waits, nobody's sign of life matters: those of clients that are gone are dropped before they pile up.
local function forget_clients()
  if redis.call('HLEN', base) < BATCH then
    return
  end
  for _, field in ipairs(redis.call('HKEYS', base)) do
    if string.sub(field, 1, 2) == 'c:' then
      redis.call('HDEL', base, field)
    end
  end
end

-- Ends leases and calls that are over, then calls the head of the line while there is something for it. Dead waiters
-- in front are all passed over here, at once. Returns true when the turn is `own`'s, which is then left to the caller.
local function advance(line, now, capacity, liveness, channel, own)
  local out = line.us > 0
  for _, ticket in ipairs(out and redis.call('ZRANGEBYSCORE', called, '-inf', now, 'LIMIT', 0, BATCH) or {}) do
    local _, permits, grace, number = parse(redis.call('HGET', base, 't:' .. ticket))
    redis.call('ZREM', called, ticket)
    line.us = line.us - permits
    park(ticket, permits, grace, number, now)
  end
  for _, ticket in ipairs(out and redis.call('ZRANGEBYSCORE', held, '-inf', now, 'LIMIT', 0, BATCH) or {}) do
    local _, permits = parse(redis.call('HGET', base, 't:' .. ticket))
    redis.call('ZREM', held, ticket)
    line.us = line.us - permits
    remember(ticket, 'E', now)
  end
  if line.qt > now or line.us >= capacity then
    return false
  end
  local alive = {}
  while true do
    local ticket = redis.call('ZRANGE', queue, 0, 0)[1]
    if not ticket then
      return false
    end
    local _, permits, grace, number, client = parse(redis.call('HGET', base, 't:' .. ticket))
    if alive[client] == nil then
      alive[client] = ticket == own or tonumber(redis.call('HGET', base, 'c:' .. client) or 0) >= now
      if not alive[client] then
        redis.call('HDEL', base, 'c:' .. client)
      end
    end
    if not alive[client] then
      redis.call('ZREM', queue, ticket)
      park(ticket, permits, grace, number, now)
    elseif line.us + permits > capacity then
      return false
    else
      redis.call('ZREM', queue, ticket)
      line.us = line.us + permits
      if ticket == own then
        return true
      end
      write(ticket, 'C', permits, grace, number, client)
      redis.call('ZADD', called, now + liveness, ticket)
      redis.call('PEXPIRE', called, IDLE)
      redis.call('PUBLISH', channel .. client, ticket .. ' ' .. base)
    end
  end
end
