//! A cluster: a link to each of its primaries, and the map of who serves what, which is looked at again whenever something
//! speaks against it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::{Instant, sleep, timeout};

use super::codec::Reply;
use super::connect::{self, Address, CONNECTING};
use super::links::{Links, probe_key_of};
use super::meaning::Meaning;
use super::parts::{self, Settled, Undo};
use super::request::{Failure, Request};
use super::slots::SlotMap;
use super::supervisor::{Supervised, jittered};
use super::url::Layout;
use crate::decide::group;
use crate::domain::check::Group;
use crate::domain::time::Timestamp;
use crate::domain::verdict::Decisions;
use crate::store::StoreError;

/// How often the map is looked at when nothing speaks against it.
const BETWEEN_LOOKS: Duration = Duration::from_secs(5);

/// How soon it is while something does: a failover takes its time. Each further look is twice as far off.
const FIRST_LOOK_IN_TROUBLE: Duration = Duration::from_millis(200);

/// How far off at most, where it lasts: how late at most a node that has taken over is found.
const LAST_LOOKS_IN_TROUBLE: Duration = Duration::from_secs(1);

/// How long a link is kept at least, though the map does not show where it leads: a node that slots are moving to has none of
/// its own before the first has come.
const LONGEST_OFF_THE_MAP: Duration = Duration::from_secs(30);

/// How often one call is sent on from node to node.
const REDIRECTIONS: u32 = 2;

/// A cluster, for as long as this is kept.
pub(super) struct Cluster {
    shared: Arc<Shared>,
    task: AbortHandle,
}

struct Shared {
    /// Some nodes, for the start and for when all known ones are gone.
    seeds: Vec<Address>,
    links: Links,
    view: Mutex<View>,
    /// Something speaks against the map.
    doubt: Notify,
}

#[derive(Default)]
struct View {
    map: SlotMap,
    /// Each with the moment it was made: to where a node sends on, before the map shows it.
    links: HashMap<Address, (Arc<Supervised>, Instant)>,
    /// Why there is no map.
    reason: String,
}

impl Cluster {
    /// Starts to look at the cluster that `seeds` belong to, on the current runtime.
    pub(super) fn start(seeds: Vec<Address>, links: Links) -> Self {
        let shared = Arc::new(Shared {
            seeds,
            links,
            view: Mutex::new(View {
                reason: String::from("not connected yet"),
                ..View::default()
            }),
            doubt: Notify::new(),
        });
        let task = tokio::spawn(Arc::clone(&shared).follow()).abort_handle();
        Self { shared, task }
    }

    /// Decides `group`, whose parts are asked at once. Nothing is asked of anybody while a node that is needed cannot be. What
    /// is taken back is taken back also where nobody waits for it; who does finds counters as they are left.
    pub(super) async fn decide(
        &self,
        group: &Group<'_>,
        now: Option<Timestamp>,
    ) -> Result<(Decisions, Option<TakenBack>), StoreError> {
        let parts = parts::of(group);
        if let [part] = &parts[..] {
            let mut reply = self.shared.ask(part.slot, Request::new(group, now)).await?;
            return Ok((group::decide(group, reply.now, &mut reply), None));
        }
        for part in &parts {
            self.shared.must_be_closed(part.slot)?;
        }
        let asked = parts.iter().map(|part| {
            let checks = part.asked();
            let request = Request::new(
                &Group {
                    checks: &checks,
                    ..*group
                },
                now,
            );
            self.shared.ask(part.slot, request)
        });
        let mut failure = None;
        let mut replies: Vec<Option<Reply>> = join_all(asked)
            .await
            .into_iter()
            .map(|answer| answer.map_err(|error| failure.get_or_insert(error)).ok())
            .collect();
        let Settled { decisions, undone } = parts::settle(group, &parts, &mut replies);
        let taken_back = (!undone.is_empty()).then(|| self.take_back(group, &undone, now));
        match (decisions, failure) {
            (Some(decisions), _) => Ok((decisions, taken_back)),
            (None, Some(error)) => Err(error),
            (None, None) => unreachable!("what all parts say is known"),
        }
    }

    /// Takes back what parts of a group took in vain.
    fn take_back(&self, group: &Group<'_>, undone: &[Undo<'_>], now: Option<Timestamp>) -> TakenBack {
        let request = |undo: &Undo<'_>| {
            let part = Group {
                checks: &undo.checks,
                ..*group
            };
            (undo.slot, Request::new(&part, now))
        };
        let requests: Vec<_> = undone.iter().map(request).collect();
        let shared = Arc::clone(&self.shared);
        tokio::spawn(async move {
            let asked = requests
                .into_iter()
                .map(|(slot, request)| shared.ask(slot, request));
            // What cannot be taken back stays charged, as after any call whose outcome is unknown.
            let _ = join_all(asked).await;
        })
    }
}

/// Ends when what was taken in vain is back, or cannot be had.
pub(super) type TakenBack = JoinHandle<()>;

impl Drop for Cluster {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Shared {
    /// Asks whoever serves `slot`. What has not run is sent on to where a node says it belongs.
    async fn ask(&self, slot: u16, request: Request) -> Result<Reply, StoreError> {
        let mut request = request;
        request.slot = Some(slot);
        let (mut from, mut link) = self.link_of(slot)?;
        for _ in 0..REDIRECTIONS {
            match link.link().ask(request.clone()).await {
                Err(Failure {
                    meaning: Meaning::Elsewhere { host, port, for_once },
                    ..
                }) => {
                    request.asking = for_once;
                    if !for_once {
                        self.doubt.notify_one();
                    }
                    from = from.told(&host, port);
                    link = self.link_to(&from);
                }
                other => return other.map_err(|failure| self.error(&link, failure)),
            }
        }
        let answer = link.link().ask(request).await;
        answer.map_err(|failure| self.error(&link, failure))
    }

    fn error(&self, link: &Supervised, failure: Failure) -> StoreError {
        if matches!(failure.meaning, Meaning::Lost | Meaning::Down | Meaning::Abandon) {
            self.doubt.notify_one();
        }
        link.link().error(failure)
    }

    fn must_be_closed(&self, slot: u16) -> Result<(), StoreError> {
        let (_, link) = self.link_of(slot)?;
        if link.link().is_closed() {
            return Ok(());
        }
        self.doubt.notify_one();
        Err(link.link().error(link.link().lost()))
    }

    fn link_of(&self, slot: u16) -> Result<(Address, Arc<Supervised>), StoreError> {
        let view = self.view.lock();
        let link = view.map.primary(slot).and_then(|primary| {
            let (link, _) = view.links.get(primary)?;
            Some((primary.clone(), Arc::clone(link)))
        });
        link.ok_or_else(|| {
            self.doubt.notify_one();
            StoreError::Unreachable {
                endpoint: self.links.endpoint(),
                reason: if view.reason.is_empty() {
                    format!("no node serves slot {slot}")
                } else {
                    view.reason.clone()
                },
            }
        })
    }

    /// The link to `address`, which may be a node that is not on the map yet.
    fn link_to(&self, address: &Address) -> Arc<Supervised> {
        let mut view = self.view.lock();
        let View { map, links, .. } = &mut *view;
        let (link, _) = links
            .entry(address.clone())
            .or_insert_with(|| (Arc::new(self.start(address, map)), Instant::now()));
        Arc::clone(link)
    }

    fn start(&self, address: &Address, map: &SlotMap) -> Supervised {
        let probe = probe_key_of(&self.links.keys, address, Some(map));
        self.links
            .start(address.to_string(), Layout::Single(address.clone()), &probe)
    }

    async fn follow(self: Arc<Self>) {
        let mut pause = FIRST_LOOK_IN_TROUBLE;
        loop {
            match self.look().await {
                Ok(map) => self.take(map),
                Err(reason) => {
                    let observer = &self.links.observer;
                    observer.connection_failed(&self.links.endpoint(), &reason, pause);
                    self.view.lock().reason = reason;
                }
            }
            if !self.is_in_trouble() {
                pause = FIRST_LOOK_IN_TROUBLE;
                let _ = timeout(jittered(BETWEEN_LOOKS), self.doubt.notified()).await;
            }
            // Doubts that come many at once are about the same.
            sleep(jittered(pause)).await;
            pause = (2 * pause).min(LAST_LOOKS_IN_TROUBLE);
        }
    }

    fn is_in_trouble(&self) -> bool {
        let view = self.view.lock();
        let is_closed = |primary| {
            let link = view.links.get(primary);
            link.is_some_and(|(link, _)| link.link().is_closed())
        };
        view.links.is_empty() || !view.map.primaries().all(is_closed)
    }

    /// Asks every node that is known, all at once: the first answer counts.
    async fn look(&self) -> Result<SlotMap, String> {
        let mut nodes = self.view.lock().map.nodes().to_vec();
        let seeds = self.seeds.iter().filter(|seed| !nodes.contains(seed)).cloned();
        nodes.extend(seeds.collect::<Vec<_>>());
        let mut asked: FuturesUnordered<_> = nodes
            .into_iter()
            .map(|node| async move {
                let map = timeout(CONNECTING, self.look_from(&node)).await;
                let map = map.unwrap_or_else(|_| Err(format!("no answer within {CONNECTING:?}")));
                map.map_err(|reason| format!("{node}: {reason}"))
            })
            .collect();
        let mut failures = Vec::new();
        while let Some(answer) = asked.next().await {
            match answer {
                Ok(map) => return Ok(map),
                Err(reason) if failures.contains(&reason) => {}
                Err(reason) => failures.push(reason),
            }
        }
        Err(format!("no node tells who serves what: {}", failures.join("; ")))
    }

    async fn look_from(&self, node: &Address) -> Result<SlotMap, String> {
        let mut connection = connect::to(&self.links.target, node).await?;
        SlotMap::ask(&mut connection, node).await
    }

    fn take(&self, map: SlotMap) {
        let mut view = self.view.lock();
        let View {
            map: old,
            links,
            reason,
        } = &mut *view;
        reason.clear();
        let gone: Vec<_> = links
            .extract_if(|address, (_, made)| {
                made.elapsed() > LONGEST_OFF_THE_MAP && map.primaries().all(|primary| primary != address)
            })
            .collect();
        for primary in map.primaries() {
            if !links.contains_key(primary) {
                let link = Arc::new(self.start(primary, &map));
                links.insert(primary.clone(), (link, Instant::now()));
            }
        }
        *old = map;
        drop(view);
        drop(gone);
    }
}
