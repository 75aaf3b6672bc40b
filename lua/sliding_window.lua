-- Sliding window: this window's count and, weighted, that of the one before. Rust twin: src/decide/sliding_window.rs
--
-- State, 17 bytes: start (7), this window's hits (5), the previous window's hits (5).

local SLIDING = '>I7I5I5'

-- What `raw` says, as of now: moment, start, current, previous.
local function sliding_read(raw, now, period)
  local start = now - fmod(now, period)
  if not raw or #raw ~= 17 then
    return now, start, 0, 0
  end
  local stored, current, previous = struct.unpack(SLIDING, raw)
  if stored >= EXACT or fmod(stored, period) ~= 0 then
    return now, start, 0, 0
  end
  if now < stored then
    if stored - now > OVERTAKING then
      return now, start, current, previous
    end
    return stored, stored, current, previous
  end
  if start == stored then
    return now, start, current, previous
  elseif start - stored == period then
    return now, start, 0, current
  end
  return now, start, 0, 0
end

local function sliding_fits(now, start, current, previous, asked, limit, period)
  local weighted, rest = mul_div(previous, period - (now - start), period)
  if rest > 0 then
    weighted = weighted + 1
  end
  return current + weighted + asked <= limit
end

-- Microseconds until nothing of it is in sight; nil when nothing is in it.
local function sliding_reset(now, start, current, previous, period)
  if current > 0 then
    return start + 2 * period - now
  elseif previous > 0 then
    return start + period - now
  end
end
