//! What the links of one store have in common.

use std::sync::Arc;
use std::time::Duration;

use super::connect::Whereabouts;
use super::link::Link;
use super::probe::Probe;
use super::script::Script;
use super::supervisor::Supervised;
use super::target::RedisTarget;
use crate::store::StoreObserver;
use crate::store::key::Keys;

/// Makes links.
pub(super) struct Links {
    pub(super) target: Arc<RedisTarget>,
    pub(super) script: Arc<Script>,
    pub(super) keys: Keys,
    pub(super) budget: Duration,
    pub(super) observer: Arc<dyn StoreObserver>,
}

impl Links {
    /// A link to the server at `whereabouts`, which is told of as `endpoint`. It is probed in counter `number`.
    pub(super) fn start(&self, endpoint: String, whereabouts: Whereabouts, number: u32) -> Supervised {
        let probe = Probe::new(Arc::clone(&self.script), &self.probe_key(number));
        let link = Link::new(
            endpoint,
            Arc::clone(&self.script),
            self.budget,
            Arc::clone(&self.observer),
        );
        Supervised::start(
            link,
            Arc::clone(&self.target),
            whereabouts,
            probe,
            self.budget,
            Arc::clone(&self.observer),
        )
    }

    /// The key of counter `number` for probes.
    pub(super) fn probe_key(&self, number: u32) -> Vec<u8> {
        self.keys.probe(number)
    }

    /// What they lead to.
    pub(super) const fn target(&self) -> &Arc<RedisTarget> {
        &self.target
    }

    /// What they lead to, for a person to read.
    pub(super) fn endpoint(&self) -> String {
        self.target.url().endpoint()
    }

    /// Who hears what happens.
    pub(super) fn observer(&self) -> &dyn StoreObserver {
        self.observer.as_ref()
    }
}
