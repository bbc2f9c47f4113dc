-- The common case of entering, before anything else is even defined: a new ticket, enough free, nobody in line.
-- Everything else goes on below, with what was read here.
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local fields = redis.call('HMGET', KEYS[1], 'ep', 'sq', 'tk', 'us', 'qt', 't:' .. ARGV[1], 'pe')

if fields[1] and not fields[6] and ARGV[9] == '0' and (ARGV[7] == 'queue' or ARGV[7] == 'nowait')
  and (fields[4] or 0) + ARGV[3] <= tonumber(ARGV[4]) and tonumber(fields[5] or 0) <= now
  and redis.call('ZCARD', KEYS[2]) == 0 then
  local used, lease = tonumber(fields[4] or 0), tonumber(ARGV[5])
  local token = math.max(now, (fields[3] or 0) + 1, ARGV[10] + 1)
  local text = 'H|' .. ARGV[3] .. '|' .. string.format('%.0f', token) .. '|0|' .. ARGV[2]
  local keep = 600000 + math.ceil(lease / 1000)
  redis.call('ZADD', KEYS[4], now + lease, ARGV[1])
  if used == 0 then
    redis.call('PEXPIRE', KEYS[4], keep)
  else
    redis.call('PEXPIRE', KEYS[4], keep, 'GT')
  end
  if tonumber(fields[7] or 0) < now + lease + 300000000 then
    -- `pe`: the hash does not end before this. Looking at it is cheaper than prolonging it every time.
    redis.call('PEXPIRE', KEYS[1], keep, 'GT')
    redis.call('HSET', KEYS[1], 'tk', token, 'us', used + ARGV[3], 't:' .. ARGV[1], text, 'pe', now + keep * 1000)
  else
    redis.call('HSET', KEYS[1], 'tk', token, 'us', used + ARGV[3], 't:' .. ARGV[1], text)
  end
  return { 'granted', token, tonumber(fields[1]) }
end

