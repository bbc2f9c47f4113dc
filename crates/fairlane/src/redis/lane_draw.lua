-- Settles what was drawn before, and draws the next or gives the lane back.
local limit, node, at = tonumber(ARGV[4]), node_of(ARGV[5]), 5
-- How much of the newest measurement goes into the pace.
local WEIGHT = 0.3

local function next_arg()
  at = at + 1
  return ARGV[at]
end

-- The next arguments are a count and so many rows of `width`.
local function each_row(width, use)
  for _ = 1, tonumber(next_arg()) do
    use(ARGV[at + 1], ARGV[at + 2])
    at = at + width
  end
end

-- Drops what of a lane's kept guards is over.
local function drop_kept(now)
  local over = redis.call('ZRANGEBYSCORE', after, '-inf', now, 'LIMIT', 0, 2000)
  call_with('HDEL', kept, over)
  call_with('ZREM', after, over)
end

local mine = redis.call('GET', runner)
if mine and mine ~= client then
  return { 'taken' }
end
local now = clock()
local fields = redis.call('HMGET', hash, 'sq', 'bt', 'hold', 'since', 'pace', 'ag', 'node')
local sq, batch, hold = tonumber(fields[1] or 0), tonumber(fields[2] or 0), tonumber(fields[3] or 0)
local again_up_to = tonumber(fields[6] or 0)

-- A batch is settled once: a call that is repeated, or comes after another took over, names one that is no longer there.
local settles = next_arg()
if settles ~= '' and tonumber(settles) == batch and redis.call('EXISTS', flight) == 1 then
  local decided, note, keep_for, channel = tonumber(next_arg()), next_arg(), next_arg(), next_arg()
  redis.call('DEL', flight)
  local over, winners, ends = {}, {}, {}
  each_row(1, function(guard) over[#over + 1] = guard end)
  each_row(1, function(claim) redis.call('DEL', claim_base .. claim) end)
  each_row(2, function(guard, place)
    over[#over + 1] = guard
    winners[#winners + 1], winners[#winners + 2] = guard, place
    ends[#ends + 1], ends[#ends + 2] = now + keep_for * 1000, guard
  end)
  call_with('HDEL', guards, over)
  drop_kept(now)
  if #winners > 0 then
    call_with('HSET', kept, winners)
    call_with('ZADD', after, ends)
    redis.call('PEXPIRE', kept, keep_for)
    redis.call('PEXPIRE', after, keep_for)
  end
  each_row(2, function(of, guard)
    redis.call('HDEL', base .. ':kept:' .. of, guard)
    redis.call('ZREM', base .. ':after:' .. of, guard)
  end)
  each_row(2, function(to, text) redis.call('PUBLISH', channel .. to, text) end)
  local since = tonumber(fields[4] or now)
  if decided > 0 and now > since then
    local newest, pace = decided * 1000000 / (now - since), tonumber(fields[5])
    redis.call('HSET', hash, 'pace', pace and pace + WEIGHT * (newest - pace) or newest)
  end
  redis.call('HSET', hash, 'since', now, 'note', note, 'fg', 0)
end

if limit == 0 or not fields[1] or is_empty() then
  redis.call('DEL', runner)
  keep(is_empty())
  return { 'nobody' }
end
redis.call('SET', runner, client, 'PX', lease)
if hold > now then
  keep(false)
  return { 'grace', hold - now }
end
if node ~= '' and fields[7] ~= node then
  -- A copy that took over: what it has in line may have been served since it was made.
  again_up_to = sq
end

local drawn, of_guests = {}, 0

local function draw(entry, guest)
  if again_up_to > 0 then
    local _, number = place_of(entry)
    if number <= again_up_to then
      entry = string.gsub(entry, ' %a ', string.upper, 1)
    end
  end
  drawn[#drawn + 1] = entry
  of_guests = of_guests + (guest and 1 or 0)
end

local function draw_line()
  for _, entry in ipairs(redis.call('LPOP', owners, limit) or {}) do
    draw(entry, false)
  end
  if #drawn == limit or redis.call('EXISTS', owners) == 1 then
    return
  end
  -- Those who came back and those who stand here in one order of places; that is first the ones and then the others,
  -- unless a copy took over that still knew some of the line.
  local back, taken = redis.call('ZRANGE', old, 0, limit - #drawn - 1), 0
  while #drawn < limit and back[taken + 1] do
    local entry, head = back[taken + 1], redis.call('LINDEX', guests, 0)
    if head and sortable(place_of(head)) < string.sub(entry, 1, 26) then
      draw(redis.call('LPOP', guests), true)
      strip(sq)
    else
      draw(string.sub(entry, 27), true)
      taken = taken + 1
    end
  end
  if taken > 0 then
    redis.call('ZREMRANGEBYRANK', old, 0, taken - 1)
  end
  while #drawn < limit do
    local some = redis.call('LPOP', guests, limit - #drawn)
    if not some then
      break
    end
    for _, entry in ipairs(some) do
      if entry ~= '' then
        draw(entry, true)
      end
    end
  end
  strip(sq)
end

local whole = redis.call('LRANGE', flight, 0, -1)
local again = #whole > 0
if not again then
  draw_line()
  call_with('RPUSH', flight, drawn)
  redis.call('HSET', hash, 'fg', of_guests)
end
batch = math.max(now, batch + 1)
redis.call('HSET', hash, 'bt', batch)
keep(false)
local reply = { 'batch', batch, redis.call('HGET', hash, 'note') or '', again and 1 or 0 }
for _, entry in ipairs(again and whole or drawn) do
  reply[#reply + 1] = entry
end
return reply
