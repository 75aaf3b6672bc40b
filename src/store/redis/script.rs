//! The one script: `lua/` put together, in the order in which each part needs those before it.

/// The script's source.
pub const SOURCE: &str = concat!(
    include_str!("../../../lua/arith.lua"),
    include_str!("../../../lua/clock.lua"),
    include_str!("../../../lua/bucket.lua"),
    include_str!("../../../lua/sliding_window.lua"),
    include_str!("../../../lua/fixed_window.lua"),
    include_str!("../../../lua/sliding_log.lua"),
    include_str!("../../../lua/group.lua"),
    include_str!("../../../lua/frame.lua"),
);
