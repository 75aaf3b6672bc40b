-- Sliding window: this window's count and, weighted, that of the one before. Rust twin: src/decide/sliding_window.rs
--
-- State, 17 bytes: start (7), this window's hits (5), the previous window's hits (5).

local function sliding_window()
  local STATE = '>I7I5I5'

  local function put(key, now, start, current, previous, period)
    if current == 0 and previous == 0 then
      redis.call('DEL', key)
    else
      local edge = current > 0 and start + 2 * period or start + period
      redis.call('SET', key, struct.pack(STATE, start, current, previous), 'PX', ttl_of(edge - now, now))
    end
  end

  -- Whether `asked` hits fit, and what they are weighed against: moment, start, current, previous.
  local function weigh(key, raw, now, asked, limit, _, period)
    local start, current, previous = now - fmod(now, period), 0, 0
    local stored, stored_current, stored_previous
    if raw and #raw == 17 then
      stored, stored_current, stored_previous = struct.unpack(STATE, raw)
    end
    if stored and stored < EXACT and fmod(stored, period) == 0 then
      if now < stored then
        current, previous = stored_current, stored_previous
        if stored - now <= OVERTAKING then
          now, start = stored, stored
        else
          put(key, now, start, current, previous, period)
        end
      elseif start == stored then
        current, previous = stored_current, stored_previous
      elseif start - stored == period then
        previous = stored_current
      end
    end
    local weighted, rest = mul_div(previous, period - (now - start), period)
    if rest > 0 then
      weighted = weighted + 1
    end
    return current + weighted + asked <= limit, now, start, current, previous
  end

  local function take(key, now, start, current, previous, hits, _, _, period)
    current = current + hits
    put(key, now, start, current > MOST and MOST or current, previous, period)
  end

  -- What was `taken` goes out of its own window, other hits out of the newest.
  local function give_back(key, now, start, current, previous, hits, _, _, period, taken)
    if taken then
      local window = taken - fmod(taken, period)
      if window == start then
        current = current > hits and current - hits or 0
      elseif window + period == start then
        previous = previous > hits and previous - hits or 0
      end
    elseif hits > current then
      local rest = hits - current
      current, previous = 0, previous > rest and previous - rest or 0
    else
      current = current - hits
    end
    put(key, now, start, current, previous, period)
  end

  return weigh, take, give_back
end
