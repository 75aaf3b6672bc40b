-- Sliding log: a list of marks, one per admitted call. Rust twin: src/decide/sliding_log.rs
--
-- A mark, 13 bytes: moment (7), running total of hits modulo 2^48 (6). The first mark is the base: the last one that
-- no longer counts, or zero. What is read of a log, 26 bytes: hits that count (5), moments of the newest mark, of the
-- one whose leaving makes room for one hit more, and of the one whose leaving makes room for what was asked (7 each).

local MARK = '>I7I6'
local VIEW = '>I5I7I7I7'
local TOTALS = 281474976710656 -- 2^48

-- Moment and total of the mark at `place`; nil when there is none that can be read.
local function log_mark(key, place)
  local raw = redis.pcall('LINDEX', key, place)
  if type(raw) ~= 'string' or #raw ~= 13 then
    return nil
  end
  local at, total = struct.unpack(MARK, raw)
  if at >= EXACT then
    return nil
  end
  return at, total
end

-- The first place from `low` below `high` whose mark passes `test(at, total)`; `high` when none does.
local function log_search(key, low, high, test)
  while low < high do
    local middle = math.floor((low + high) / 2)
    local at, total = log_mark(key, middle)
    if not at or test(at, total) then
      high = middle
    else
      low = middle + 1
    end
  end
  return low
end

-- What a call that asks for `asked` hits sees: a table, or nil when nothing counts, and whether what lies there is no
-- log at all.
local function log_read(key, now, asked, limit, period)
  local length = redis.pcall('LLEN', key)
  if type(length) ~= 'number' then
    return nil, true
  elseif length == 0 then
    return nil, false
  end
  local last, total = log_mark(key, -1)
  local base_at, base = log_mark(key, 0)
  if not last or not base_at then
    return nil, true
  elseif length == 1 or last + period <= now then
    return nil, false
  end
  now = effective_now(last, now)
  local expired = 0
  local at = log_mark(key, 1)
  if at and at + period <= now then
    expired = log_search(key, 2, length, function(mark) return mark + period > now end) - 1
    base_at, base = log_mark(key, expired)
    if not base_at then
      return nil, true
    end
  end
  local used = fmod(total + TOTALS - base, TOTALS)
  local function leaving(hits)
    if hits < 1 then
      hits = 1
    end
    local place = log_search(key, expired + 1, length, function(_, mark)
      return fmod(mark + TOTALS - base, TOTALS) >= hits
    end)
    return (log_mark(key, place < length and place or length - 1)) or last
  end
  local next_at = leaving(used + 1 - limit)
  local retry_at = used + asked > limit and leaving(used + asked - limit) or next_at
  return {
    now = now, used = used, last = last, total = total, base = base, expired = expired, length = length,
    view = struct.pack(VIEW, used, last, next_at, retry_at),
  }
end

-- Drops what no longer counts, and makes one mark of now of those that a clock since set back left in the future.
local function log_forget(key, log)
  if log.expired > 0 then
    redis.call('LTRIM', key, log.expired, -1)
    log.length = log.length - log.expired
    log.expired = 0
  end
  if log.last > log.now then
    local ahead = log_search(key, 1, log.length, function(at) return at > log.now end)
    redis.call('LTRIM', key, 0, ahead)
    redis.call('LSET', key, -1, struct.pack(MARK, log.now, log.total))
    log.length = ahead + 1
    log.last = log.now
  end
end

-- Marks `hits` as admitted.
local function log_take(key, log, now, hits, limit, period)
  if not log then
    redis.call('DEL', key)
    redis.call('RPUSH', key, struct.pack(MARK, 0, 0), struct.pack(MARK, now, hits))
    return
  end
  log_forget(key, log)
  local mark = struct.pack(MARK, log.now, fmod(log.total + hits, TOTALS))
  local granule = limit > 10000 and math.ceil(period / 1000) or 0
  if granule > 0 and div(log.last, granule) == div(log.now, granule) then
    redis.call('LSET', key, -1, mark)
  else
    redis.call('RPUSH', key, mark)
  end
end

-- Takes the newest `hits` out; says when nothing is left, else the moment of the mark that is then the newest.
local function log_give_back(key, log, hits)
  local left = log.used - hits
  if left <= 0 then
    redis.call('DEL', key)
    return nil
  end
  log_forget(key, log)
  local newest = log_search(key, 1, log.length, function(_, mark)
    return fmod(mark + TOTALS - log.base, TOTALS) >= left
  end)
  local at = log_mark(key, newest)
  redis.call('LTRIM', key, 0, newest)
  redis.call('LSET', key, -1, struct.pack(MARK, at, fmod(log.base + left, TOTALS)))
  return at
end
