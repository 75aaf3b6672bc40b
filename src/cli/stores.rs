//! Makes the store of each core, and what runs beside them: the only file that names concrete stores.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::Notify;

use super::doctor;
use super::settings::{Settings, StoreSettings};
use crate::domain::check::Group;
use crate::domain::time::Timestamp;
use crate::domain::verdict::Decisions;
use crate::service::admin::Background;
use crate::service::source::Hints;
use crate::store::fallback::{Fallback, Standby};
use crate::store::instances::Instances;
use crate::store::key::Keys;
use crate::store::memory::Memory;
use crate::store::redis::{Heartbeat, Notice, Notices, Redis, Teller, TimeSource};
use crate::store::refused::{Refusals, Refused};
use crate::store::{Store, StoreError};
use crate::telemetry::metrics::Metrics;

/// An embedded store that nobody else shares, for as many counters as one test may need.
pub fn embedded_store() -> impl Store {
    const MOST_COUNTERS: usize = 1_000_000;
    Memory::new(MOST_COUNTERS, Metrics::new(1).store_observer(0))
}

/// What all cores share of their stores.
pub struct Stores {
    settings: StoreSettings,
    key_prefix: String,
    keys: Keys,
    local: Memory,
    /// The same counters, where they stand in for the shared store.
    standby: Arc<Standby>,
    instances: Instances,
    /// What the shared store would refuse.
    refusals: Arc<Refusals>,
    metrics: Arc<Metrics>,
}

impl Stores {
    /// The stores that `settings` ask for, with counters named by `keys`. Other instances hear by `teller` of hits that are
    /// given back.
    pub fn new(
        settings: &Settings,
        keys: Keys,
        teller: Option<Teller>,
        instances: Instances,
        metrics: Arc<Metrics>,
    ) -> Self {
        let observer = metrics.store_observer(0);
        let local = Memory::new(settings.max_counters, Arc::clone(&observer));
        let mut refusals = Refusals::new();
        match &settings.store {
            StoreSettings::Memory => tracing::info!("counters live in this process"),
            StoreSettings::Redis { target, .. } => {
                tracing::info!(store = %target.url(), "counters live in Redis");
                if target.is_cluster() {
                    refusals = Refusals::of_cluster();
                }
            }
        }
        if let Some(teller) = teller {
            refusals = refusals.telling(move |key| teller.tell(Notice::GivenBack(key.to_vec())));
        }
        let ceiling = settings.fallback_ceiling.clone();
        let standby = Standby::new(local.clone(), instances.clone(), ceiling, observer);
        Self {
            settings: settings.store.clone(),
            key_prefix: settings.key_prefix.clone(),
            keys,
            standby: Arc::new(standby),
            local,
            instances,
            refusals: Arc::new(refusals),
            metrics,
        }
    }

    /// The store of `core`. Must be called inside its runtime: its connections live there.
    pub fn for_core(&self, core: usize) -> Stack {
        let StoreSettings::Redis {
            target,
            budget,
            most_keys,
        } = &self.settings
        else {
            return Stack::Memory(self.local.clone());
        };
        let redis = Redis::connect(
            target,
            *budget,
            *most_keys,
            TimeSource::Store,
            &self.keys,
            self.metrics.store_observer(core),
        );
        let shared = Fallback::new(redis, Arc::clone(&self.standby));
        let observer = self.metrics.store_observer(core);
        Stack::Redis(Refused::new(shared, Arc::clone(&self.refusals), observer))
    }

    /// What runs beside `main` where the store is shared: the heartbeat, the notices, whose asking for a reload goes to
    /// `hints`, and one look at what would bite.
    pub fn beside(&self, main: Background, notices: Option<Notices>, hints: Arc<Hints>) -> Background {
        let (StoreSettings::Redis { target, budget, .. }, Some(notices)) = (&self.settings, notices) else {
            return main;
        };
        let heartbeat = Heartbeat::new(Arc::clone(target), &self.keys, self.instances.clone());
        let (keys, prefix) = (self.keys.clone(), self.key_prefix.clone());
        let examined = doctor::log_when_there(Arc::clone(target), keys, prefix, *budget);
        // Of a cluster it hears one node, which says nothing about the others.
        let speaks_for_all = !target.is_cluster();
        let (refusals, standby) = (Arc::clone(&self.refusals), Arc::clone(&self.standby));
        let heard = move |notice| match notice {
            Notice::GivenBack(key) => refusals.give_back_seen(&key),
            Notice::Reset => refusals.forget_all(),
            Notice::Reload => hints.ask(),
        };
        // Nothing is listened to that has not answered as a Redis does.
        let answered = Arc::new(Notify::new());
        let is_redis = Arc::clone(&answered);
        let beaten = move || {
            answered.notify_one();
            if speaks_for_all {
                standby.store_answered();
            }
        };
        let told = async move {
            is_redis.notified().await;
            notices.run(heard, warn_of_no_notices).await
        };
        Box::pin(async move {
            tokio::select! {
                () = main => {}
                never = heartbeat.run(beaten, warn_of_silence) => match never {},
                never = told => match never {},
                never = examined => match never {},
            }
        })
    }
}

fn warn_of_silence(reason: &str) {
    tracing::warn!(
        reason,
        "no heartbeat reaches Redis, so other instances are not heard: until they are, this one takes itself for the only \
         one when it decides without Redis; --instances says how many there are"
    );
}

fn warn_of_no_notices(reason: &str) {
    tracing::warn!(
        reason,
        "other instances' notices do not arrive: what they are given back is seen here when it would be anyway, and a reload \
         is not passed on"
    );
}

/// Which stores decide.
#[derive(Clone)]
pub enum Stack {
    /// The embedded one.
    Memory(Memory),
    /// A shared one, with what stands before it.
    Redis(Refused<Fallback<Redis>>),
}

impl Store for Stack {
    async fn decide(
        &self,
        group: &Group<'_>,
        now: Timestamp,
        deadline: Instant,
    ) -> Result<Decisions, StoreError> {
        match self {
            Self::Memory(store) => store.decide(group, now, deadline).await,
            // What waits for a server is large, and is not to weigh on calls that wait for none.
            Self::Redis(store) => Box::pin(store.decide(group, now, deadline)).await,
        }
    }
}
