-- Charges the checks of a group of several. Rust twin: src/decide/group.rs

local function charge_group(group)
  local BINDS, BINDS_WITH_QUOTAS = 1, 2
  local TAKE, ALL_OR_NOTHING, EACH = 1, 0, 1

  local refused, quotas, spent = false, 0, 0
  for _, check in ipairs(group) do
    if check.binding == BINDS then
      refused = refused or not check.fits
    elseif check.binding == BINDS_WITH_QUOTAS then
      quotas = quotas + 1
      spent = spent + (check.fits and 0 or 1)
    end
  end
  refused = refused or quotas > 0 and quotas == spent

  for _, check in ipairs(group) do
    local charged = check.charge == EACH or check.charge == ALL_OR_NOTHING and not refused
    if check.kind == TAKE and check.fits and charged then
      check[1](unpack(check, 2, 12))
    end
  end
end
