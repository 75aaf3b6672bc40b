-- Fixed window: one count that starts afresh at each edge of its grid. Rust twin: src/decide/fixed_window.rs
--
-- State, 12 bytes: start (7), hits (5).
-- The grid is 0 for multiples of the period since the epoch, 1 for multiples since Monday 1969-12-29, and 1 + k for
-- every k months counted from January 1970.

local function fixed_window()
  local STATE = '>I7I5'
  local DAY = 86400000000
  local MONDAY_TO_EPOCH = 3 * DAY

  local function div(a, b)
    return (a - fmod(a, b)) / b
  end

  -- The month, counted from January 1970, of a day, counted from the epoch.
  local function month_of(day)
    day = day + 719468
    local of_era = fmod(day, 146097)
    local year = div(of_era - div(of_era, 1460) + div(of_era, 36524) - div(of_era, 146096), 365)
    local of_year = of_era - (365 * year + div(year, 4) - div(year, 100))
    return (div(day, 146097) * 400 + year) * 12 + div(5 * of_year + 2, 153) - 23638
  end

  -- The day, counted from the epoch, on which a month, counted from January 1970, starts.
  local function first_day_of(month)
    local from_march = month + 23638
    local year = div(from_march, 12)
    local of_era = fmod(year, 400)
    return div(year, 400) * 146097 + 365 * of_era + div(of_era, 4) - div(of_era, 100)
      + div(153 * fmod(from_march, 12) + 2, 5) - 719468
  end

  local function start_of(now, period, grid)
    if grid == 0 then
      return now - fmod(now, period)
    elseif grid == 1 then
      local start = now - fmod(now + MONDAY_TO_EPOCH, period)
      return start > 0 and start or 0
    end
    local month = month_of(div(now, DAY))
    return first_day_of(month - fmod(month, grid - 1)) * DAY
  end

  local function end_of(start, period, grid)
    if grid == 0 then
      return start + period
    elseif grid == 1 then
      return start + period - fmod(start + MONDAY_TO_EPOCH, period)
    end
    return first_day_of(month_of(div(start, DAY)) + grid - 1) * DAY
  end

  local function put(key, now, start, count, period, grid)
    if count == 0 then
      redis.call('DEL', key)
    else
      redis.call('SET', key, struct.pack(STATE, start, count), 'PX', ttl_of(end_of(start, period, grid) - now, now))
    end
  end

  -- Whether `asked` hits fit, and what they are weighed against: moment, start, count.
  local function weigh(key, raw, now, asked, limit, grid, period)
    local start, count = start_of(now, period, grid), 0
    local stored, stored_count
    if raw and #raw == 12 then
      stored, stored_count = struct.unpack(STATE, raw)
    end
    if stored and stored < EXACT and (stored == start or start_of(stored, period, grid) == stored) then
      if now < stored then
        count = stored_count
        if stored - now <= OVERTAKING then
          now, start = stored, stored
        else
          put(key, now, start, count, period, grid)
        end
      elseif start == stored then
        count = stored_count
      end
    end
    return count + asked <= limit, now, start, count
  end

  local function take(key, now, start, count, _, hits, _, grid, period)
    count = count + hits
    put(key, now, start, count > MOST and MOST or count, period, grid)
  end

  -- What was `taken` in another window than this one is gone with it.
  local function give_back(key, now, start, count, _, hits, _, grid, period, taken)
    if taken and start_of(taken, period, grid) ~= start then
      hits = 0
    end
    put(key, now, start, count > hits and count - hits or 0, period, grid)
  end

  return weigh, take, give_back
end
