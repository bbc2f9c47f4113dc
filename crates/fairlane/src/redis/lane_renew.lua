-- Keeps the lane for another lease, unless another has it.
local has = redis.call('GET', runner)
if has and has ~= client then
  return 0
end
redis.call('SET', runner, client, 'PX', lease)
if not is_empty() then
  keep(false)
end
return 1
