-- What the scripts of a lane share; put in front of each of them.
--
-- Per lane:
-- lane    hash    ep: epoch given out now, bn: epoch at birth, sq: last number, ag: numbers up to this one may have been
--                 served, hold: nothing is drawn before, bt: names what is in flight, fg: guests in flight, pace, since:
--                 the last settlement, note, node: which server
-- guests  list    in order of number, without gaps: whoever takes a number while somebody stands here is appended, an owner
--                 as ''. So the first number is sq - length + 1, and everybody is found by arithmetic. The head is never ''
-- owners  list    in order of coming
-- old     zset    who came back from an earlier life, in lexical order of place
-- flight  list    who was drawn and is not settled, in the order drawn
-- gone    zset    numbers in guests at which nobody stands
-- guards  hash    name -> epoch.number request
-- kept    hash    guards of winners, which stand for a while longer -> epoch.number
-- after   zset    until when
-- runner  string  the client that runs the lane
-- Per group: claim:<name>, left:<lane>:<place>, rate zset, busy set of lanes with somebody in them.
--
-- An entry is 'epoch.number side request payload'; the side is o(wner) or g(uest), in upper case if it may have been served
-- before. Times are µs of this server. Numbers are below 10^14, so that Lua writes them in full; times are not, and only
-- handed to commands as they are.

local base, lane, client, lease = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local hash, guests, owners = base .. ':lane:' .. lane, base .. ':guests:' .. lane, base .. ':owners:' .. lane
local old, flight, gone = base .. ':old:' .. lane, base .. ':flight:' .. lane, base .. ':gone:' .. lane
local guards, runner = base .. ':guards:' .. lane, base .. ':runner:' .. lane
local kept, after = base .. ':kept:' .. lane, base .. ':after:' .. lane
local busy, claim_base = base .. ':busy', base .. ':claim:'

-- An untouched lane with somebody in it is forgotten after this many ms; an empty one sooner.
local IDLE, EMPTY = 600000, 300000

local function clock()
  local t = redis.call('TIME')
  return t[1] * 1000000 + t[2]
end

-- A place as text that sorts as places do.
local function sortable(epoch, number)
  return string.format('%010.0f%016.0f', epoch, number)
end

-- Who left, for a while: nobody brings them back.
local function left_key(place)
  return base .. ':left:' .. lane .. ':' .. place
end

local function place_of(text)
  local epoch, number, rest = string.match(text, '^(%d+)%.(%d+)(.*)$')
  return tonumber(epoch), tonumber(number), rest
end

local function stands(entry, place)
  return entry and string.sub(entry, 1, #place + 1) == place .. ' '
end

-- Those who came back sort by the first 26 characters of their entry, which is no part of it.
local function find_old(place)
  local key = sortable(place_of(place))
  return redis.call('ZRANGEBYLEX', old, '[' .. key, '(' .. key .. '~', 'LIMIT', 0, 1)[1]
end

local function find_guest(place, last)
  local _, number = place_of(place)
  local index = number - (last - redis.call('LLEN', guests) + 1)
  if index < 0 then
    return nil
  end
  local entry = redis.call('LINDEX', guests, index)
  return stands(entry, place) and entry or nil, index
end

local function waiting()
  return redis.call('LLEN', guests) - redis.call('ZCARD', gone) + redis.call('ZCARD', old)
end

-- The head of the guests is somebody, and gone begins behind it.
local function strip(last)
  while redis.call('LINDEX', guests, 0) == '' do
    local ahead, empty = redis.call('LRANGE', guests, 0, 99), 0
    while ahead[empty + 1] == '' do
      empty = empty + 1
    end
    redis.call('LPOP', guests, empty)
  end
  redis.call('ZREMRANGEBYSCORE', gone, '-inf', last - redis.call('LLEN', guests))
end

-- Calls a command with any number of arguments, in portions that Lua can bear.
local function call_with(command, key, arguments)
  for from = 1, #arguments, 1000 do
    redis.call(command, key, unpack(arguments, from, math.min(from + 999, #arguments)))
  end
end

local function is_empty()
  return redis.call('EXISTS', guests, owners, old, flight) == 0
end

-- Keeps the keys of a lane with somebody in it; lets go of those of an empty one.
local function keep(empty)
  if empty then
    redis.call('SREM', busy, lane)
    redis.call('DEL', guards, gone)
    redis.call('PEXPIRE', hash, EMPTY)
    return
  end
  for _, key in ipairs({ hash, guests, owners, old, flight, gone, guards, busy }) do
    redis.call('PEXPIRE', key, IDLE)
  end
end

-- Which server this is, as the client says, or of a cluster which node; '' if nobody knows.
local function node_of(server)
  if server ~= 'cluster' then
    return server
  end
  local id = redis.pcall('CLUSTER', 'MYID')
  return type(id) == 'string' and id or ''
end
