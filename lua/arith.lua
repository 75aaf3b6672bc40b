-- Exact arithmetic on whole numbers below 2^53. Rust twin: src/decide/arith.rs
--
-- Never `%` or math.floor(a / b) on such numbers: both round. math.fmod is exact, and so is the division of what it
-- leaves whole.

local fmod = math.fmod
local EXACT = 9007199254740992 -- 2^53
local MOST = 1099511627775     -- 2^40 - 1 hits
local OVERTAKING = 1000000     -- microseconds

-- Quotient and remainder of a * b / c, for a quotient below 2^53 and c of at most ten years in microseconds.
local function mul_div(a, b, c)
  local product = a * b
  if product < EXACT then
    local rest = fmod(product, c)
    return (product - rest) / c, rest
  end
  -- Digit by octal digit of b, from the top: 8 * rest + 7 * part stays below 15 * c.
  local part = fmod(a, c)
  local whole = (a - part) / c
  local digits, count = {}, 0
  while b > 0 do
    local digit = fmod(b, 8)
    count = count + 1
    digits[count] = digit
    b = (b - digit) / 8
  end
  local quotient, rest = 0, 0
  for i = count, 1, -1 do
    local step = 8 * rest + part * digits[i]
    rest = fmod(step, c)
    quotient = 8 * quotient + (step - rest) / c + whole * digits[i]
  end
  return quotient, rest
end
