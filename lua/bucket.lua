-- Token and leaky bucket: a level that drains at n hits per p microseconds. Rust twin: src/decide/bucket.rs
--
-- State, 26 bytes: moment (7), whole hits (5), fraction's numerator (7), fraction's denominator (7).

local function bucket()
  local STATE = '>I7I5I7I7'
  local LONGEST_PERIOD = 315360000000000 -- ten years: nobody writes more, and mul_div is exact up to it

  -- How long the level takes to drain to `target` whole hits, rounded up.
  local function time_to_reach(whole, part, target, n, p)
    local quotient, rest = mul_div(whole - target, p, n)
    local sum = rest + part
    rest = fmod(sum, n)
    return quotient + (sum - rest) / n + (rest > 0 and 1 or 0)
  end

  local function put(key, now, whole, part, n, p)
    if whole == 0 and part == 0 then
      redis.call('DEL', key)
    else
      local ttl = ttl_of(time_to_reach(whole, part, 0, n, p), now)
      redis.call('SET', key, struct.pack(STATE, now, whole, part, p), 'PX', ttl)
    end
  end

  -- Whether `asked` hits fit within the wait, and what they are weighed against: moment, whole, part.
  local function weigh(key, raw, now, asked, free, n, p, wait, most, most_part)
    local whole, part = 0, 0
    local at, stored_whole, stored_part, per
    if raw and #raw == 26 then
      at, stored_whole, stored_part, per = struct.unpack(STATE, raw)
    end
    if at and at < EXACT and per <= LONGEST_PERIOD and stored_part < per then
      whole, part = stored_whole, stored_part
      if per ~= p then
        local rest
        part, rest = mul_div(part, p, per)
        if rest > 0 then
          part = part + 1
        end
        if part == p then
          whole, part = whole + 1, 0
        end
      end
      if whole > most or whole == most and part > most_part then
        whole, part = most, most_part
      end
      if now > at then
        local elapsed = now - at
        local round = fmod(elapsed, p)
        local gone, gone_part = mul_div(round, n, p)
        whole = whole - (elapsed - round) / p * n - gone
        part = part - gone_part
        if part < 0 then
          whole, part = whole - 1, part + p
        end
        if whole < 0 then
          whole, part = 0, 0
        end
      elseif at - now <= OVERTAKING then
        now = at
      end
      if now < at then
        put(key, now, whole, part, n, p)
      end
    end
    local target = free > asked and free - asked or 0
    local fits = whole < target or whole == target and part == 0
      or wait > 0 and time_to_reach(whole, part, target, n, p) <= wait
    return fits, now, whole, part
  end

  local function take(key, now, whole, part, _, hits, _, n, p, most, most_part)
    whole = whole + hits
    if whole > most or whole == most and part > most_part then
      whole, part = most, most_part
    end
    put(key, now, whole, part, n, p)
  end

  local function give_back(key, now, whole, part, _, hits, _, n, p)
    if hits > whole then
      whole, part = 0, 0
    else
      whole = whole - hits
    end
    put(key, now, whole, part, n, p)
  end

  return weigh, take, give_back
end
