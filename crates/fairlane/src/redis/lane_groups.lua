-- The groups that were active lately, the latest first.
return redis.call('ZRANGE', KEYS[1], 0, ARGV[1] - 1, 'REV')
