-- Decides a batch of groups of checks, in order; a later group sees what an earlier one charged. Rust twin:
-- src/decide/group.rs
--
-- KEYS[i]  the counter of check i.
-- ARGV[i]  check i, 51 bytes: algorithm (1: 0 a limit of zero, 1 bucket, 2 sliding window, 3 fixed window, 4 sliding
--          log), kind of hits (1: 0 look, 1 take, 2 give back,
--          3 look that asks for nothing more, 4 undo), binding (1: 0 never, 1 always, 2 with all quotas),
--          charge (1: 0 all or nothing, 1 each, 2 always), whether it ends its group (1), hits (5), what the limit
--          holds at once (5), the most one call can have (5), rate's hits or grid (5), rate's microseconds or period
--          (7), longest wait, or of an undo the moment that it undoes (7), most that can be owed: whole (5) and part (7).
-- ARGV[#KEYS + 1]  optional, for tests: the moment to decide at, in microseconds since the epoch. Real time goes on
--          meanwhile, so state then lives for an hour at least.
--
-- Reply: the moment, then for each check what lay in its counter: bytes (of a log, what was read of it), or nil for
-- nothing. Bytes that say nothing are state that could not be read: it counted as none. The caller makes verdicts and
-- figures from that with the same arithmetic; what was to be charged has been charged.
--
-- State from the future, left by a clock that was set back, is written again as of now, also when nothing is charged:
-- it would stand still until the clock has caught up.
--
-- Whatever lies in its keys, it does not raise. A write that Redis refuses (memory, replica) fails as the first one.
-- Functions are made where they are needed, since a call makes anew all that it passes by.

local BUCKET, SLIDING, FIXED, LOG = 1, 2, 3, 4
local LOOK, TAKE, GIVE_BACK, UNDO = 0, 1, 2, 4
local ALWAYS = 2

local loaded, weigh, take, give_back
local group
local reply = { clock }

for i = 1, #KEYS do
  local key = KEYS[i]
  local algorithm, kind, binding, charge, last, hits, free, largest, n, p, wait, most, most_part =
    struct.unpack('>BBBBBI5I5I5I5I7I7I5I7', ARGV[i])
  local asked = (kind == TAKE or kind == LOOK) and hits or 0
  local fits, now, a, b, c, raw = asked == 0, clock, nil, nil, nil, false

  if algorithm ~= loaded then
    loaded = algorithm
    if algorithm == BUCKET then
      weigh, take, give_back = bucket()
    elseif algorithm == SLIDING then
      weigh, take, give_back = sliding_window()
    elseif algorithm == FIXED then
      weigh, take, give_back = fixed_window()
    elseif algorithm == LOG then
      weigh, take, give_back = sliding_log()
    else
      weigh = nil
    end
  end

  if algorithm == LOG then
    fits, now, a, raw = weigh(key, now, asked, free, p)
  elseif weigh then
    raw = redis.pcall('GET', key)
    if type(raw) == 'table' then
      if string.sub(raw.err, 1, 9) ~= 'WRONGTYPE' then
        return raw
      end
      raw = ''
    end
    fits, now, a, b, c = weigh(key, raw, now, asked, free, n, p, wait, most, most_part)
  end
  local back = kind == GIVE_BACK or kind == UNDO
  local taken = kind == UNDO and wait
  fits = back or fits and asked <= largest

  if weigh and kind == TAKE and charge == ALWAYS then
    take(key, now, a, b, c, hits, free, n, p, most, most_part)
  elseif back and algorithm == LOG then
    if a then
      raw = give_back(key, now, a, raw, c, hits, free, n, p, taken)
    end
  elseif back and raw then
    give_back(key, now, a, b, c, hits, free, n, p, taken)
  end
  reply[i + 1] = raw

  if last == 1 and not group then
    if kind == TAKE and fits and charge ~= ALWAYS then
      take(key, now, a, b, c, hits, free, n, p, most, most_part)
    end
  else
    group = group or {}
    group[#group + 1] = {
      weigh and take, key, now, a, b, c, hits, free, n, p, most, most_part,
      kind = kind, binding = binding, charge = charge, fits = fits,
    }
    if last == 1 then
      charge_group(group)
      group = nil
    end
  end
end

return reply
