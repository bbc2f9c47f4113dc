-- Takes everybody of a call in, in order: known? guard, claim, rate, bound, number.
local bound, limit, window = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local floor, epoch, known = tonumber(ARGV[7]), tonumber(ARGV[8]), ARGV[9] == '1'
local node, grace, count = node_of(ARGV[10]), tonumber(ARGV[11]), tonumber(ARGV[12])
local FIRST, WIDTH = 12, 7
local CLAIM = 600000

local now = clock()
local fields = redis.call('HMGET', hash, 'ep', 'bn', 'sq', 'node')
local ep, bn, sq = tonumber(fields[1]), tonumber(fields[2]), tonumber(fields[3] or 0)
local born = not ep
local moved = ep and node ~= '' and fields[4] ~= node

if born or moved or ep < floor then
  if epoch < floor or epoch <= (ep or -1) then
    return { 'epoch' }
  end
  local held = not born
  if born then
    -- Whatever an eviction has left of an earlier life.
    redis.call('DEL', guests, owners, old, flight, gone, guards, runner)
    bn = epoch
    held = known
    for i = 1, count do
      held = held or ARGV[FIRST + (i - 1) * WIDTH + 6] ~= ''
    end
  end
  ep = epoch
  redis.call('HSET', hash, 'ep', ep, 'bn', bn, 'sq', sq, 'node', node)
  if not born then
    redis.call('HSET', hash, 'ag', sq)
  end
  if held then
    redis.call('HSET', hash, 'hold', now + grace)
  end
end

-- What others have of the names in this call; what this call gives out is added on the way.
local by_guard, by_claim, by_kept, lane_of_claim = {}, {}, {}, {}
do
  local guard_names, claim_keys, claim_names = {}, {}, {}
  for i = 1, count do
    local at = FIRST + (i - 1) * WIDTH
    local guard, claim = ARGV[at + 3], ARGV[at + 4]
    if guard ~= '' then
      guard_names[#guard_names + 1] = guard
    end
    if claim ~= '' then
      claim_names[#claim_names + 1] = claim
      claim_keys[#claim_keys + 1] = claim_base .. claim
    end
  end
  if #guard_names > 0 then
    local texts, winners = redis.call('HMGET', guards, unpack(guard_names)), redis.call('HMGET', kept, unpack(guard_names))
    for i, guard in ipairs(guard_names) do
      by_guard[guard] = texts[i] or nil
      if winners[i] and tonumber(redis.call('ZSCORE', after, guard) or 0) > now then
        by_kept[guard] = winners[i]
      end
    end
  end
  if #claim_keys > 0 then
    for i, text in ipairs(redis.call('MGET', unpack(claim_keys))) do
      if text then
        by_claim[claim_names[i]], lane_of_claim[claim_names[i]] = string.match(text, '^(%S+ %S+) (.*)$')
      end
    end
  end
end

local rate, used, due, passes = base .. ':rate', nil, 0, {}
local function over_rate()
  if limit == 0 then
    return false
  end
  if not used then
    -- Passes that lie further ahead than a window were counted by a clock that has since been set back.
    redis.call('ZREMRANGEBYSCORE', rate, now + window + 1, '+inf')
    used = redis.call('ZCOUNT', rate, '(' .. string.format('%.0f', now - window), '+inf')
  end
  if used >= limit and due == 0 then
    -- Those of this call passed now.
    local stored = limit - #passes / 2
    local frees = stored > 0 and redis.call('ZRANGE', rate, -stored, -stored, 'WITHSCORES')[2]
    due = math.max((tonumber(frees) or now) + window - now, 1)
  end
  return used >= limit
end

-- Whether somebody has this place: of this call, drawn, an owner, or in the line as it was before this call.
local last, of_call, others = sq, {}, nil
local function stands_already(place)
  if not others then
    others = {}
    for _, list in ipairs({ flight, owners }) do
      for _, entry in ipairs(redis.call('LRANGE', list, 0, -1)) do
        others[string.match(entry, '^%S+')] = true
      end
    end
  end
  return of_call[place] or others[place] or find_guest(place, last) or find_old(place)
end

local length, line = redis.call('LLEN', guests), waiting()
local woke, entered = is_empty(), false
local new_guests, new_owners, new_guards, new_gone = {}, {}, {}, {}

local function take(owner, request, limited, payload)
  sq = sq + 1
  local place = ep .. '.' .. sq
  local entry = place .. (owner and ' o ' or ' g ') .. request .. ' ' .. payload
  if not owner then
    new_guests[#new_guests + 1] = entry
    length, line = length + 1, line + 1
  else
    new_owners[#new_owners + 1] = entry
    if length > 0 then
      new_guests[#new_guests + 1] = ''
      new_gone[#new_gone + 1] = sq
      new_gone[#new_gone + 1] = sq
      length = length + 1
    end
  end
  if limited and limit > 0 then
    used = used + 1
    passes[#passes + 1] = now
    passes[#passes + 1] = place .. ' ' .. lane
  end
  return place
end

local function take_back(owner, request, before, payload)
  local entry = before .. (owner and ' O ' or ' G ') .. request .. ' ' .. payload
  if owner then
    new_owners[#new_owners + 1] = entry
  else
    redis.call('ZADD', old, 0, sortable(place_of(before)) .. entry)
    line = line + 1
  end
end

local function hold_names(place, request, guard, claim)
  local text = place .. ' ' .. request
  if guard ~= '' and not by_guard[guard] then
    by_guard[guard] = text
    new_guards[#new_guards + 1] = guard
    new_guards[#new_guards + 1] = text
  end
  if claim ~= '' and not by_claim[claim] then
    by_claim[claim], lane_of_claim[claim] = text, lane
    redis.call('SET', claim_base .. claim, text .. ' ' .. lane, 'PX', CLAIM)
  end
end

local IN, IN_PROGRESS, LIMITED, FULL, LEFT, IN_PROGRESS_IN = 0, 1, 2, 3, 4, 5

local taken_epoch, taken_number

-- Whether the request stands there already under this name. Remembers the place of another that has the name.
local function is_known(names, name, request)
  local epoch, number, its = place_of(names[name])
  if its ~= ' ' .. request then
    taken_epoch, taken_number = taken_epoch or epoch, taken_number or number
  elseif stands_already(epoch .. '.' .. number) then
    taken_epoch, taken_number = epoch, number
    return true
  else
    -- Its own from a time that is over.
    names[name] = nil
  end
end

-- What it is, and two values that say more.
local function enter(side, request, guard, claim, limited, before, payload)
  taken_epoch, taken_number = nil, nil
  if by_claim[claim] and lane_of_claim[claim] ~= lane and before == '' then
    return IN_PROGRESS_IN, string.match(by_claim[claim], '^%S+'), lane_of_claim[claim]
  end
  if by_guard[guard] and is_known(by_guard, guard, request) or by_claim[claim] and is_known(by_claim, claim, request)
    or by_kept[guard] and is_known(by_kept, guard, request) then
    return IN, taken_epoch, taken_number
  end
  if before ~= '' then
    if redis.call('EXISTS', left_key(before)) == 1 then
      return LEFT, 0, 0
    end
    if not stands_already(before) then
      take_back(side == 'o', request, before, payload)
      entered = true
    end
    hold_names(before, request, guard, claim)
    of_call[before] = true
    return IN, place_of(before)
  elseif taken_epoch then
    return IN_PROGRESS, taken_epoch, taken_number
  elseif limited and over_rate() then
    return LIMITED, due, 0
  elseif side == 'g' and line >= bound then
    return FULL, line, 0
  end
  local place = take(side == 'o', request, limited, payload)
  entered = true
  of_call[place] = true
  hold_names(place, request, guard, claim)
  return IN, ep, sq
end

local reply = { 'done', bn, 0, born and 1 or 0 }
for i = 1, count do
  local at = FIRST + (i - 1) * WIDTH
  local word, first, second = enter(ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], ARGV[at + 4], ARGV[at + 5] == '1',
    ARGV[at + 6], ARGV[at + 7])
  reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = word, first, second
end

call_with('RPUSH', guests, new_guests)
call_with('RPUSH', owners, new_owners)
call_with('HSET', guards, new_guards)
call_with('ZADD', gone, new_gone)
if #passes > 0 then
  redis.call('ZADD', rate, unpack(passes))
  redis.call('ZREMRANGEBYRANK', rate, 0, -limit - 1)
  redis.call('PEXPIRE', rate, math.ceil(window / 1000) + 60000)
end
if entered then
  redis.call('HSET', hash, 'sq', sq)
  redis.call('SADD', busy, lane)
  if woke then
    redis.call('HSET', hash, 'since', now)
  end
end
local empty = woke and not entered
if not empty and redis.call('SET', runner, client, 'NX', 'PX', lease) then
  reply[3] = 1
end
keep(empty)
return reply
