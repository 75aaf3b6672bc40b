//! What the links of one store have in common.

use std::sync::Arc;
use std::time::Duration;

use super::connect::Address;
use super::link::Link;
use super::probe::Probe;
use super::script::Script;
use super::slots::{SLOTS, SlotMap, slot_of};
use super::supervisor::Supervised;
use super::target::RedisTarget;
use super::url::Layout;
use crate::store::StoreObserver;
use crate::store::key::Keys;

/// The key of a counter for probes that the node at `address` serves, by `map`: one number in as many as there are
/// primaries gives one. A node that serves none says where it belongs, which shows as well that it is there.
pub(super) fn probe_key_of(keys: &Keys, address: &Address, map: Option<&SlotMap>) -> Vec<u8> {
    let Some(map) = map else { return keys.probe(0) };
    let mut numbered = (0..u32::from(SLOTS)).map(|number| keys.probe(number));
    numbered
        .find(|key| map.primary(slot_of(key)) == Some(address))
        .unwrap_or_else(|| keys.probe(0))
}

/// Makes links.
pub(super) struct Links {
    pub(super) target: Arc<RedisTarget>,
    pub(super) script: Arc<Script>,
    pub(super) keys: Keys,
    pub(super) budget: Duration,
    pub(super) most_keys: usize,
    pub(super) observer: Arc<dyn StoreObserver>,
}

impl Links {
    /// A link to the one server of `layout`, which is told of as `endpoint`. It is probed in the counter `probe`.
    pub(super) fn start(&self, endpoint: String, layout: Layout, probe: &[u8]) -> Supervised {
        let probe = Probe::new(Arc::clone(&self.script), probe);
        let link = Link::new(
            endpoint,
            Arc::clone(&self.script),
            self.budget,
            self.most_keys,
            Arc::clone(&self.observer),
        );
        Supervised::start(
            link,
            Arc::clone(&self.target),
            layout,
            probe,
            self.budget,
            Arc::clone(&self.observer),
        )
    }

    /// What they lead to, for a person to read.
    pub(super) fn endpoint(&self) -> String {
        self.target.url().endpoint()
    }
}
