-- Token and leaky bucket: a level that drains at n hits per p microseconds. Rust twin: src/decide/bucket.rs
--
-- State, 26 bytes: moment (7), whole hits (5), fraction's numerator (7), fraction's denominator (7).

local BUCKET = '>I7I5I7I7'

-- The level that `raw` says, as of now: moment, whole, part.
local function bucket_read(raw, now, n, p, most, most_part)
  if not raw or #raw ~= 26 then
    return now, 0, 0
  end
  local at, whole, part, per = struct.unpack(BUCKET, raw)
  if at >= EXACT or part >= EXACT or per >= EXACT or part >= per then
    return now, 0, 0
  end
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
  now = effective_now(at, now)
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
  end
  if whole > most or whole == most and part > most_part then
    whole, part = most, most_part
  end
  return now, whole, part
end

-- How long the level takes to drain to `target` whole hits, rounded up.
local function bucket_time_to_reach(whole, part, target, n, p)
  local quotient, rest = mul_div(whole - target, p, n)
  local sum = rest + part
  rest = fmod(sum, n)
  quotient = quotient + (sum - rest) / n
  if rest > 0 then
    quotient = quotient + 1
  end
  return quotient
end

-- Whether `asked` hits fit within the wait.
local function bucket_fits(whole, part, asked, free, n, p, wait)
  local target = free - asked
  if target < 0 then
    target = 0
  end
  if whole < target or whole == target and part == 0 then
    return true
  end
  return wait > 0 and bucket_time_to_reach(whole, part, target, n, p) <= wait
end
