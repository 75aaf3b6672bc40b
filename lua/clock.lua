-- The moment a batch is decided at, and how long from it what is written lives.

local given = ARGV[#KEYS + 1]
local clock
if given then
  clock = tonumber(given)
else
  local time = redis.call('TIME')
  clock = time[1] * 1000000 + time[2]
end

-- Milliseconds of what lasts `micros` from `now`, which may be ahead of the clock.
local function ttl_of(micros, now)
  local millis = math.ceil((micros + now - clock) / 1000)
  if given and millis < 3600000 then
    return 3600000
  end
  return millis
end
