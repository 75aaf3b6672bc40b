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

/// A script as servers know it.
pub(super) struct Script {
    source: &'static str,
    hash: String,
}

impl Script {
    /// The script of `source`.
    pub(super) fn new(source: &'static str) -> Self {
        Self {
            source,
            hash: redis::Script::new(source).get_hash().to_owned(),
        }
    }

    /// What it says.
    pub(super) const fn source(&self) -> &'static str {
        self.source
    }

    /// The name by which a server that has run it once knows it.
    pub(super) fn hash(&self) -> &str {
        &self.hash
    }
}
