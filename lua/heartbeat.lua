-- Says that an instance is alive, and counts those that are. Every instance runs it every few seconds.
--
-- KEYS[1]  the instances: a sorted set, by the millisecond at which each was last heard.
-- ARGV[1]  the instance.
-- ARGV[2]  for how many milliseconds it counts as alive without another word.
--
-- Reply: how many are alive, this one included.

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local removed = redis.pcall('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[2])
if type(removed) == 'table' and string.sub(removed.err, 1, 9) == 'WRONGTYPE' then
  -- Somebody else's, under a name of ours.
  redis.call('DEL', KEYS[1])
end
-- A clock that was set back would keep alive for long what it heard before.
redis.call('ZREMRANGEBYSCORE', KEYS[1], now + ARGV[2], '+inf')
redis.call('ZADD', KEYS[1], now, ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return redis.call('ZCARD', KEYS[1])
