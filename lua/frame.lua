-- Decides a batch of groups of checks, in order; a later group sees what an earlier one charged. Rust twin:
-- src/decide/group.rs
--
-- KEYS[i]  the counter of check i.
-- ARGV[i]  check i, 51 bytes: algorithm (1: 0 a limit of zero, 1 bucket,
--          2 sliding window, 3 fixed window, 4 sliding log), kind of hits
--          (1: 0 look, 1 take, 2 give back), binding (1: 0 never, 1 always, 2 with all quotas), charge (1: 0 all or
--          nothing, 1 each, 2 always), whether it ends its group (1), hits (5), what the limit holds at once (5), the
--          most one call can have (5), rate's hits or grid (5), rate's microseconds or period (7), longest wait (7),
--          most that can be owed: whole (5) and part (7).
-- ARGV[#KEYS + 1]  optional, for tests: the moment to decide at, in microseconds since the epoch. Real time goes on
--          meanwhile, so state then lives for an hour at least.
--
-- Reply: the moment, then for each check what lay in its counter: bytes (of a log, what was read of it), or nil for
-- nothing. Bytes that say nothing are state that could not be read: it counted as none. The caller makes verdicts and
-- figures from that with the same arithmetic; what was to be charged has been charged.
--
-- Whatever lies in its keys, it does not raise. A write that Redis refuses (memory, replica) fails as the first one.

local CHECK = '>BBBBBI5I5I5I5I7I7I5I7'
local HOUR = 3600000 -- milliseconds

local BLOCKED_CHECK, BUCKET_CHECK, SLIDING_CHECK, LOG_CHECK = 0, 1, 2, 4
local LOOK, TAKE, GIVE_BACK = 0, 1, 2
local BINDS, BINDS_WITH_QUOTAS = 1, 2
local ALL_OR_NOTHING, EACH, ALWAYS = 0, 1, 2

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
  if given and millis < HOUR then
    return HOUR
  end
  return millis
end

-- Puts what is in a counter in its place, or nothing where that says as much.
local function write(key, algorithm, now, a, b, c, n, p)
  if algorithm == BUCKET_CHECK then
    if b == 0 and c == 0 then
      redis.call('DEL', key)
    else
      local reset = bucket_time_to_reach(b, c, 0, n, p)
      redis.call('SET', key, struct.pack(BUCKET, a, b, c, p), 'PX', ttl_of(reset, now))
    end
  elseif algorithm == SLIDING_CHECK then
    local reset = sliding_reset(now, a, b, c, p)
    if reset then
      redis.call('SET', key, struct.pack(SLIDING, a, b, c), 'PX', ttl_of(reset, now))
    else
      redis.call('DEL', key)
    end
  elseif b == 0 then
    redis.call('DEL', key)
  else
    redis.call('SET', key, struct.pack(FIXED, a, b), 'PX', ttl_of(fixed_end(a, p, n) - now, now))
  end
end

-- Adds hits to what is in a counter and puts it in its place.
local function take(key, algorithm, now, a, b, c, log, hits, free, n, p, most, most_part)
  if algorithm == LOG_CHECK then
    log_take(key, log, now, hits, free, p)
    redis.call('PEXPIRE', key, ttl_of(p, now))
    return
  end
  b = b + hits
  if algorithm == BUCKET_CHECK then
    if b > most or b == most and c > most_part then
      b, c = most, most_part
    end
  elseif b > MOST then
    b = MOST
  end
  write(key, algorithm, now, a, b, c, n, p)
end

-- Takes hits out of what is in a counter, never below empty, and puts the rest in its place.
local function give_back(key, algorithm, now, a, b, c, hits, n, p)
  if algorithm == SLIDING_CHECK then
    local rest = hits - b
    if rest > 0 then
      b, c = 0, c > rest and c - rest or 0
    else
      b = b - hits
    end
  elseif hits > b then
    b, c = 0, 0
  else
    b = b - hits
  end
  write(key, algorithm, now, a, b, c, n, p)
end

-- The checks of a group of several, as lists of what `take` needs, until its last one is there.
local group = {}

local function is_refused()
  local quotas, spent = 0, 0
  for _, check in ipairs(group) do
    if check.binding == BINDS and not check.fits then
      return true
    elseif check.binding == BINDS_WITH_QUOTAS then
      quotas = quotas + 1
      if not check.fits then
        spent = spent + 1
      end
    end
  end
  return quotas > 0 and quotas == spent
end

local function charge_group()
  local refused = is_refused()
  for _, check in ipairs(group) do
    if check.kind == TAKE and check.fits and (check.charge == EACH or check.charge == ALL_OR_NOTHING and not refused) then
      take(unpack(check, 1, 13))
    end
  end
  group = {}
end

local reply = { clock }

for i, key in ipairs(KEYS) do
  local algorithm, kind, binding, charge, last, hits, free, largest, n, p, wait, most, most_part =
    struct.unpack(CHECK, ARGV[i])
  local asked = kind == TAKE and hits or kind == LOOK and 1 or 0
  local fits = asked <= largest
  local now, a, b, c, log, raw = clock, 0, 0, 0, nil, false

  if algorithm == LOG_CHECK then
    local unreadable
    log, unreadable = log_read(key, now, asked, free, p)
    if log then
      now, raw = log.now, log.view
      fits = fits and log.used + asked <= free
    elseif unreadable then
      raw = ''
    end
  elseif algorithm ~= BLOCKED_CHECK then
    raw = redis.pcall('GET', key)
    if type(raw) == 'table' then
      if string.sub(raw.err, 1, 9) ~= 'WRONGTYPE' then
        return raw
      end
      raw = ''
    end
    if algorithm == BUCKET_CHECK then
      now, b, c = bucket_read(raw, now, n, p, most, most_part)
      a = now
      fits = fits and bucket_fits(b, c, asked, free, n, p, wait)
    elseif algorithm == SLIDING_CHECK then
      now, a, b, c = sliding_read(raw, now, p)
      fits = fits and sliding_fits(now, a, b, c, asked, free, p)
    else
      now, a, b = fixed_read(raw, now, p, n)
      fits = fits and b + asked <= free
    end
  end
  fits = fits or asked == 0

  if algorithm == BLOCKED_CHECK then
    -- Nothing is ever in it.
  elseif kind == GIVE_BACK then
    if algorithm ~= LOG_CHECK then
      if b > 0 or c > 0 then
        give_back(key, algorithm, now, a, b, c, hits, n, p)
      end
    elseif log then
      local newest = log_give_back(key, log, hits)
      if newest then
        redis.call('PEXPIRE', key, ttl_of(newest + p - now, now))
      end
      log = log_read(key, clock, asked, free, p)
      raw = log and log.view or false
    end
  elseif kind == TAKE and charge == ALWAYS then
    take(key, algorithm, now, a, b, c, log, hits, free, n, p, most, most_part)
  end
  reply[i + 1] = raw

  if last == 1 and not group[1] then
    if kind == TAKE and fits and charge ~= ALWAYS and algorithm ~= BLOCKED_CHECK then
      take(key, algorithm, now, a, b, c, log, hits, free, n, p, most, most_part)
    end
  else
    group[#group + 1] = {
      key, algorithm, now, a, b, c, log, hits, free, n, p, most, most_part,
      kind = kind, binding = binding, charge = charge, fits = fits,
    }
    if last == 1 then
      charge_group()
    end
  end
end

return reply
