-- Where a ticket stands: number, how many in front, how many in all. Without a ticket, only the last.
local _, text = look_up(ARGV[1])
local waiting = redis.call('ZCARD', queue)
if not text then
  return { waiting }
end
local state, _, _, number = parse(text)
if state == 'C' then
  return { waiting, number, 0 }
elseif state == 'W' then
  return { waiting, number, redis.call('ZRANK', queue, ARGV[1]) }
elseif state == 'P' then
  return { waiting, number, redis.call('ZCOUNT', queue, '-inf', '(' .. int(number)) }
end
return { waiting }
