-- Sliding log: a list of marks, one per admitted call. Rust twin: src/decide/sliding_log.rs
--
-- A mark, 13 bytes: moment (7), running total of hits modulo 2^48 (6). The first mark is the base: the last one that
-- no longer counts, or zero. What is read of a log, 26 bytes: hits that count (5), moments of the newest mark, of the
-- one whose leaving makes room for one hit more, and of the one whose leaving makes room for what was asked (7 each).

local function sliding_log()
  local MARK = '>I7I6'
  local VIEW = '>I5I7I7I7'
  local TOTALS = 281474976710656 -- 2^48
  local MOST_SINGLE_MARKS = 10000

  -- Moment and total of the mark at `place`; nil when there is none that can be read.
  local function mark_at(key, place)
    local raw = redis.pcall('LINDEX', key, place)
    if type(raw) ~= 'string' or #raw ~= 13 then
      return nil
    end
    local at, total = struct.unpack(MARK, raw)
    if at < EXACT then
      return at, total
    end
  end

  -- The first place from `low` below `high` whose mark passes `test(at, total)`; `high` when none does.
  local function search(key, low, high, test)
    while low < high do
      local middle = math.floor((low + high) / 2)
      local at, total = mark_at(key, middle)
      if not at or test(at, total) then
        high = middle
      else
        low = middle + 1
      end
    end
    return low
  end

  -- What is in a log: nil when nothing counts, and whether what lies there is no log at all.
  local function read(key, now, period)
    local length = redis.pcall('LLEN', key)
    if type(length) ~= 'number' then
      return nil, true
    elseif length == 0 then
      return nil, false
    end
    local last, total = mark_at(key, -1)
    local base_at, base = mark_at(key, 0)
    if not last or not base_at then
      return nil, true
    elseif length == 1 or last + period <= now then
      return nil, false
    end
    if last > now and last - now <= OVERTAKING then
      now = last
    end
    local expired = 0
    local at = mark_at(key, 1)
    if at and at + period <= now then
      expired = search(key, 2, length, function(mark) return mark + period > now end) - 1
      base_at, base = mark_at(key, expired)
      if not base_at then
        return nil, true
      end
    end
    return {
      now = now, used = fmod(total + TOTALS - base, TOTALS), last = last, total = total,
      base = base, expired = expired, length = length,
    }
  end

  local function view(key, log, asked, limit)
    local function leaving(hits)
      local place = search(key, log.expired + 1, log.length, function(_, total)
        return fmod(total + TOTALS - log.base, TOTALS) >= hits
      end)
      return mark_at(key, place < log.length and place or log.length - 1) or log.last
    end
    local function missing(hits)
      return math.max(log.used + hits - limit, 1)
    end
    local next_at = leaving(missing(1))
    local retry_at = missing(asked) == missing(1) and next_at or leaving(missing(asked))
    return struct.pack(VIEW, log.used, log.last, next_at, retry_at)
  end

  -- Drops what no longer counts, and makes one mark of now of those that a clock since set back left in the future.
  local function forget(key, log)
    if log.expired > 0 then
      redis.call('LTRIM', key, log.expired, -1)
      log.length = log.length - log.expired
      log.expired = 0
    end
    if log.last > log.now then
      local ahead = search(key, 1, log.length, function(at) return at > log.now end)
      redis.call('LTRIM', key, 0, ahead)
      redis.call('LSET', key, -1, struct.pack(MARK, log.now, log.total))
      log.length = ahead + 1
      log.last = log.now
    end
  end

  -- Whether `asked` hits fit, what they are weighed against (moment, log), and what was read.
  local function weigh(key, now, asked, limit, period)
    local log, unreadable = read(key, now, period)
    if log then
      if log.last > log.now then
        forget(key, log)
        redis.call('PEXPIRE', key, ttl_of(period, log.now))
      end
      return log.used + asked <= limit, log.now, log, view(key, log, asked, limit)
    end
    return true, now, nil, unreadable and ''
  end

  local function take(key, now, log, _, _, hits, limit, _, period)
    if log then
      forget(key, log)
      local mark = struct.pack(MARK, now, fmod(log.total + hits, TOTALS))
      local granule = limit > MOST_SINGLE_MARKS and math.ceil(period / 1000) or 0
      if granule > 0 and log.last - fmod(log.last, granule) == now - fmod(now, granule) then
        redis.call('LSET', key, -1, mark)
      else
        redis.call('RPUSH', key, mark)
      end
    else
      redis.call('DEL', key)
      redis.call('RPUSH', key, struct.pack(MARK, 0, 0), struct.pack(MARK, now, hits))
    end
    redis.call('PEXPIRE', key, ttl_of(period, now))
  end

  -- The newest hits go first; what was `taken` only while nothing newer stands on it. Answers with what can then be read. Between its ends a list may hold what is no mark:
  -- where that is met there is no telling what is left, and it was no log.
  local function give_back(key, now, log, raw, _, hits, limit, _, period, taken)
    if taken and taken ~= log.last then
      return raw
    end
    local left = log.used - hits
    if left <= 0 then
      redis.call('DEL', key)
      return false
    end
    forget(key, log)
    local newest = search(key, 1, log.length, function(_, total)
      return fmod(total + TOTALS - log.base, TOTALS) >= left
    end)
    local at = mark_at(key, newest)
    if not at then
      redis.call('DEL', key)
      return ''
    end
    redis.call('LTRIM', key, 0, newest)
    redis.call('LSET', key, -1, struct.pack(MARK, at, fmod(log.base + left, TOTALS)))
    redis.call('PEXPIRE', key, ttl_of(at + period - now, now))
    local rest = read(key, clock, period)
    return rest and view(key, rest, 0, limit) or false
  end

  return weigh, take, give_back
end
