//! Groups on their way to the script, alone or several in one call.

use std::collections::VecDeque;

use redis::{Cmd, RedisError};
use smallvec::SmallVec;
use tokio::sync::oneshot;

use super::codec::{self, CHECK, Reply};
use super::connect::Entry;
use super::meaning::{self, Meaning};
use crate::domain::check::Group;
use crate::domain::time::Timestamp;

/// The most counters of one call that several groups share: beyond that a call gets no cheaper, and holds up Redis for
/// longer.
pub const MOST_KEYS: usize = 32;

/// One group, written out: whoever asked may be gone before it is sent.
#[derive(Clone, Debug)]
pub(super) struct Request {
    /// The keys, one after another, then an argument for each.
    bytes: Vec<u8>,
    /// Where each key ends.
    ends: SmallVec<[u32; 4]>,
    /// When it is to be decided, where the store's own clock does not say.
    now: Option<Timestamp>,
    /// For keys that are on their way to another server: `ASKING` goes before it.
    pub(super) asking: bool,
    /// Where in a cluster its keys lie: a call there is about one slot.
    pub(super) slot: Option<u16>,
}

impl Request {
    pub(super) fn new(group: &Group<'_>, now: Option<Timestamp>) -> Self {
        let keys: usize = group.checks.iter().map(|check| check.key.len()).sum();
        let mut bytes = Vec::with_capacity(keys + group.checks.len() * CHECK);
        let mut ends = SmallVec::with_capacity(group.checks.len());
        for check in group.checks {
            bytes.extend_from_slice(check.key);
            // Keys are bounded, far below this.
            ends.push(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
        }
        for argument in codec::arguments(group) {
            bytes.extend_from_slice(&argument);
        }
        Self {
            bytes,
            ends,
            now,
            asking: false,
            slot: None,
        }
    }

    /// How many counters it is about.
    pub(super) fn checks(&self) -> usize {
        self.ends.len()
    }

    /// The call for it alone: `name` runs `script`.
    pub(super) fn command(&self, name: &str, script: &str) -> Cmd {
        command(name, script, std::slice::from_ref(self).iter())
    }

    fn keys(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts
            .zip(&self.ends)
            .map(|(start, end)| &self.bytes[start as usize..*end as usize])
    }

    fn arguments(&self) -> impl Iterator<Item = &[u8]> {
        let start = self.ends.last().map_or(0, |end| *end as usize);
        self.bytes[start..].chunks_exact(CHECK)
    }
}

fn command<'a>(name: &str, script: &str, requests: impl Iterator<Item = &'a Request> + Clone) -> Cmd {
    let mut command = redis::cmd(name);
    command
        .arg(script)
        .arg(requests.clone().map(Request::checks).sum::<usize>());
    for key in requests.clone().flat_map(Request::keys) {
        command.arg(key);
    }
    for argument in requests.clone().flat_map(Request::arguments) {
        command.arg(argument);
    }
    // Those with a time of their own go alone.
    if let Some(now) = requests.take(1).find_map(|request| request.now) {
        command.arg(now.as_micros());
    }
    command
}

/// A group that somebody waits for.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) request: Request,
    pub(super) answer: oneshot::Sender<Result<Reply, Failure>>,
}

/// Why a call came back without a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) meaning: Meaning,
    /// For an operator.
    pub(super) reason: String,
}

impl Failure {
    /// What `error` is to a call.
    pub(super) fn of(error: &RedisError) -> Self {
        Self {
            meaning: Meaning::of(error),
            reason: meaning::explained(error),
        }
    }

    /// There is no way to the server, for `reason`.
    pub(super) const fn lost(reason: String) -> Self {
        Self {
            meaning: Meaning::Lost,
            reason,
        }
    }
}

/// Groups that go in one call.
#[derive(Debug)]
pub(super) struct Batch {
    groups: SmallVec<[Waiting; 1]>,
    keys: usize,
}

impl Batch {
    /// What goes next: the first of those that wait, and what can go with it, up to `most_keys` counters. Whoever does not wait
    /// any more is left out.
    pub(super) fn next(waiting: &mut VecDeque<Waiting>, most_keys: usize) -> Option<Self> {
        let mut batch = Self {
            groups: SmallVec::new(),
            keys: 0,
        };
        while let Some(next) = waiting.front() {
            if next.answer.is_closed() {
                waiting.pop_front();
                continue;
            }
            if !batch.takes(&next.request, most_keys) {
                break;
            }
            let Some(next) = waiting.pop_front() else { break };
            batch.keys += next.request.checks();
            batch.groups.push(next);
        }
        (!batch.groups.is_empty()).then_some(batch)
    }

    fn takes(&self, request: &Request, most_keys: usize) -> bool {
        let is_alone = |request: &Request| request.asking || request.now.is_some();
        match self.groups.first() {
            None => true,
            Some(first) => {
                !is_alone(&first.request)
                    && !is_alone(request)
                    && first.request.slot == request.slot
                    && self.keys + request.checks() <= most_keys
            }
        }
    }

    /// How many groups it holds.
    pub(super) fn groups(&self) -> usize {
        self.groups.len()
    }

    /// How the server is to be spoken to.
    pub(super) fn entry(&self) -> Entry {
        match self.groups.first() {
            Some(first) if first.request.asking => Entry::Asking,
            _ => Entry::Plain,
        }
    }

    /// The call: `name` runs `script` over all groups.
    pub(super) fn command(&self, name: &str, script: &str) -> Cmd {
        command(name, script, self.groups.iter().map(|waiting| &waiting.request))
    }

    /// Gives everybody what came for them. Whether somebody still waits is their business.
    pub(super) fn settle(self, outcome: Result<redis::Value, Failure>) {
        let outcome = outcome.and_then(|value| {
            Reply::read(value, self.keys).ok_or_else(|| Failure {
                meaning: Meaning::Refused,
                reason: String::from("an answer that is none of the script's"),
            })
        });
        match outcome {
            Ok(mut reply) => {
                for waiting in self.groups {
                    let _ = waiting.answer.send(Ok(reply.take(waiting.request.checks())));
                }
            }
            Err(failure) => {
                for waiting in self.groups {
                    let _ = waiting.answer.send(Err(failure.clone()));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use redis::Value;

    use super::*;
    use crate::domain::check::{Binding, Charge, Check, OnStoreFailure};
    use crate::domain::limit::{Algorithm, Limit, LimitSpec, Period, Unit};
    use crate::domain::quantity::Hits;
    use crate::domain::time::Micros;

    fn limit() -> Limit {
        Limit::new(LimitSpec {
            name: Arc::from("limit"),
            named: true,
            count: 10,
            period: Period::one(Unit::Minute),
            algorithm: Algorithm::SlidingWindow,
            burst: None,
            delay: Micros::ZERO,
            calendar: true,
        })
        .expect("a sound limit")
    }

    type Answer = oneshot::Receiver<Result<Reply, Failure>>;

    /// A group of one check for each key.
    fn waiting(keys: &[&str]) -> (Waiting, Answer) {
        let limit = limit();
        let checks: Vec<Check<'_>> = keys
            .iter()
            .map(|key| Check {
                key: key.as_bytes(),
                limit: &limit,
                hits: Hits::take(1),
                binding: Binding::Always,
                charge: Charge::AllOrNothing,
                on_store_failure: OnStoreFailure::default(),
            })
            .collect();
        let group = Group {
            checks: &checks,
            longest_wait: Micros::ZERO,
            compat: false,
        };
        let (answer, receiver) = oneshot::channel();
        let request = Request::new(&group, None);
        (Waiting { request, answer }, receiver)
    }

    /// Groups of so many checks each.
    fn queue(sizes: &[usize]) -> (VecDeque<Waiting>, Vec<Answer>) {
        sizes.iter().map(|size| waiting(&vec!["key"; *size])).unzip()
    }

    fn next(queue: &mut VecDeque<Waiting>) -> Option<Batch> {
        Batch::next(queue, MOST_KEYS)
    }

    fn sizes(queue: &mut VecDeque<Waiting>) -> Vec<usize> {
        std::iter::from_fn(|| next(queue).map(|batch| batch.groups())).collect()
    }

    #[test]
    fn what_waits_goes_together_up_to_a_bound_and_no_group_is_split() {
        let (mut waiting, _answers) = queue(&[1; 70]);
        assert_eq!(sizes(&mut waiting), [32, 32, 6]);
        let (mut waiting, _answers) = queue(&[20, 12, 1, 40, 1, 1]);
        assert_eq!(sizes(&mut waiting), [2, 1, 1, 2]);
    }

    #[test]
    fn where_nothing_is_to_go_together_every_group_goes_alone() {
        let (mut waiting, _answers) = queue(&[1, 3, 1]);
        let sizes: Vec<_> =
            std::iter::from_fn(|| Batch::next(&mut waiting, 1).map(|batch| batch.groups())).collect();
        assert_eq!(sizes, [1, 1, 1]);
    }

    #[test]
    fn whoever_does_not_wait_any_more_is_not_sent() {
        let (mut waiting, mut answers) = queue(&[1; 4]);
        answers.remove(1);
        answers.remove(1);
        assert_eq!(sizes(&mut waiting), [2]);
        let (mut waiting, _) = queue(&[1; 4]);
        assert_eq!(sizes(&mut waiting), [0; 0]);
    }

    #[test]
    fn what_has_a_time_or_a_place_of_its_own_goes_alone() {
        let (mut waiting, _answers) = queue(&[1; 5]);
        waiting[1].request.asking = true;
        waiting[3].request.now = Some(Timestamp::default());
        assert_eq!(sizes(&mut waiting), [1, 1, 1, 1, 1]);
    }

    #[test]
    fn in_a_cluster_what_lies_in_one_slot_goes_together() {
        let (mut waiting, _answers) = queue(&[1; 5]);
        for (place, slot) in [1, 1, 2, 1, 1].into_iter().enumerate() {
            waiting[place].request.slot = Some(slot);
        }
        assert_eq!(sizes(&mut waiting), [2, 1, 2]);
    }

    #[test]
    fn keys_stand_before_arguments_and_in_order() {
        let (one, _a) = waiting(&["alpha", ""]);
        let (other, _b) = waiting(&["be"]);
        let mut queue = VecDeque::from([one, other]);
        let command = next(&mut queue).expect("a batch").command("EVALSHA", "sha");
        let arguments: Vec<Vec<u8>> = command
            .args_iter()
            .map(|argument| match argument {
                redis::Arg::Simple(bytes) => bytes.to_vec(),
                _ => panic!("another kind"),
            })
            .collect();
        assert_eq!(
            arguments[..6],
            [&b"EVALSHA"[..], b"sha", b"3", b"alpha", b"", b"be"]
        );
        assert_eq!(
            arguments[6..].iter().map(Vec::len).collect::<Vec<_>>(),
            [CHECK; 3]
        );
        // The last of each group says so.
        let lasts: Vec<u8> = arguments[6..].iter().map(|argument| argument[4]).collect();
        assert_eq!(lasts, [0, 1, 1]);
    }

    #[test]
    fn everybody_gets_what_is_theirs() {
        let (one, mut first) = waiting(&["a", "b"]);
        let (other, mut second) = waiting(&["c"]);
        let mut queue = VecDeque::from([one, other]);
        let batch = next(&mut queue).expect("a batch");
        let bytes = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        batch.settle(Ok(Value::Array(vec![
            Value::Int(7),
            bytes("a"),
            Value::Nil,
            bytes("c"),
        ])));
        let read = |values: Vec<Value>, checks| {
            let values = std::iter::once(Value::Int(7)).chain(values).collect();
            Reply::read(Value::Array(values), checks).expect("a reply")
        };
        assert_eq!(
            first.try_recv().expect("an answer"),
            Ok(read(vec![bytes("a"), Value::Nil], 2))
        );
        assert_eq!(
            second.try_recv().expect("an answer"),
            Ok(read(vec![bytes("c")], 1))
        );
    }

    #[test]
    fn a_strange_answer_is_nobodys() {
        let (one, mut first) = waiting(&["a"]);
        let mut queue = VecDeque::from([one]);
        next(&mut queue).expect("a batch").settle(Ok(Value::Okay));
        let failure = first.try_recv().expect("an answer").expect_err("a failure");
        assert_eq!(failure.meaning, Meaning::Refused);
    }
}
