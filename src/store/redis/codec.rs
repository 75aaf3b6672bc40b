//! What goes into the script and what comes out; `lua/frame.lua` documents both.

use redis::Value;

use crate::decide::group::{Counters, Stored};
use crate::decide::sliding_log::LogView;
use crate::decide::state::{Seen, State, most_owed};
use crate::domain::check::{Binding, Charge, Check, Group};
use crate::domain::limit::{Algorithm, Grid};
use crate::domain::quantity::Hits;
use crate::domain::time::Timestamp;

/// The length of an encoded check.
pub const CHECK: usize = 5 + 4 * 5 + 2 * 7 + 5 + 7;

const LOG_VIEW: usize = 5 + 3 * 7;

/// The arguments of one group, a string per check.
pub fn arguments<'a>(group: &'a Group<'_>) -> impl Iterator<Item = [u8; CHECK]> + 'a {
    let last = group.checks.len().saturating_sub(1);
    group
        .checks
        .iter()
        .enumerate()
        .map(move |(place, check)| argument(group, check, place == last))
}

fn argument(group: &Group<'_>, check: &Check<'_>, last: bool) -> [u8; CHECK] {
    let limit = check.limit;
    let algorithm = match limit.algorithm() {
        _ if limit.count() == 0 => 0,
        Algorithm::TokenBucket | Algorithm::LeakyBucket => 1,
        Algorithm::SlidingWindow => 2,
        Algorithm::FixedWindow => 3,
        Algorithm::SlidingLog => 4,
    };
    let (kind, hits) = match check.hits {
        Hits::Look(_) if group.compat => (3, 0),
        Hits::Look(hits) => (0, hits),
        Hits::Take(hits) => (1, hits),
        Hits::GiveBack(hits) => (2, hits),
        Hits::Undo(hits, _) => (4, hits),
    };
    let binding = match check.binding {
        Binding::Never => 0,
        Binding::Always => 1,
        Binding::WithAllQuotas => 2,
    };
    let charge = match check.charge {
        Charge::AllOrNothing => 0,
        Charge::Each => 1,
        Charge::Always => 2,
    };
    let free = match limit.algorithm() {
        Algorithm::TokenBucket | Algorithm::LeakyBucket => limit.capacity(),
        Algorithm::SlidingWindow | Algorithm::FixedWindow | Algorithm::SlidingLog => limit.count(),
    };
    let (per, micros) = match limit.grid() {
        _ if limit.algorithm().is_bucket() => (limit.rate().hits, limit.rate().micros),
        Grid::Epoch => (0, limit.period().length().get()),
        Grid::Monday => (1, limit.period().length().get()),
        Grid::Months(months) => (1 + u64::from(months), limit.period().length().get()),
    };
    let most = most_owed(check);
    let mut packed = Packed {
        bytes: [0; CHECK],
        length: 0,
    };
    packed
        .put::<1>(algorithm)
        .put::<1>(kind)
        .put::<1>(binding)
        .put::<1>(charge)
        .put::<1>(u64::from(last));
    packed
        .put::<5>(hits)
        .put::<5>(u64::from(free))
        .put::<5>(u64::from(limit.largest()))
        .put::<5>(per);
    // What comes back waits for nothing.
    let wait_or_taken = match check.hits {
        Hits::Undo(_, taken) => taken.as_micros(),
        _ => check.longest_wait(group.longest_wait).get(),
    };
    packed.put::<7>(micros).put::<7>(wait_or_taken);
    packed.put::<5>(most.whole).put::<7>(most.part);
    packed.bytes
}

struct Packed {
    bytes: [u8; CHECK],
    length: usize,
}

impl Packed {
    fn put<const WIDTH: usize>(&mut self, number: u64) -> &mut Self {
        self.bytes[self.length..self.length + WIDTH].copy_from_slice(&number.to_be_bytes()[8 - WIDTH..]);
        self.length += WIDTH;
        self
    }
}

/// What the script answered: the moment it decided at and what lay in each counter.
#[derive(Debug, PartialEq)]
pub struct Reply {
    /// The store's own moment.
    pub now: Timestamp,
    found: Vec<Value>,
}

impl Reply {
    /// The reply about counters that hold nothing.
    pub const fn nothing(now: Timestamp) -> Self {
        Self {
            now,
            found: Vec::new(),
        }
    }

    /// Reads a reply about `checks` checks; none when it is not one.
    pub fn read(value: Value, checks: usize) -> Option<Self> {
        let Value::Array(mut found) = value else {
            return None;
        };
        if found.len() != checks + 1 {
            return None;
        }
        let Value::Int(now) = found.remove(0) else {
            return None;
        };
        let readable = found
            .iter()
            .all(|value| matches!(value, Value::Nil | Value::BulkString(_)));
        readable.then_some(Self {
            now: Timestamp::from_micros(u64::try_from(now).ok()?),
            found,
        })
    }
}

impl Reply {
    /// Takes out what is about the first `checks` checks.
    pub(super) fn take(&mut self, checks: usize) -> Self {
        let rest = self.found.split_off(checks.min(self.found.len()));
        Self {
            now: self.now,
            found: std::mem::replace(&mut self.found, rest),
        }
    }
}

/// The script has charged what was to be charged, so deciding over its reply only reads.
impl Counters for Reply {
    fn read(&mut self, place: usize, check: &Check<'_>, _: u64, _: Timestamp) -> Stored {
        let Some(Value::BulkString(bytes)) = self.found.get(place) else {
            return Stored::Nothing;
        };
        let state = match check.limit.algorithm() {
            Algorithm::SlidingLog => log_view(bytes).map(State::Log),
            _ => State::decode(check.limit, bytes),
        };
        state.map_or(Stored::Unreadable, Stored::State)
    }

    fn write(&mut self, _: usize, _: &Check<'_>, _: &Seen, _: Hits) {}
}

fn log_view(bytes: &[u8]) -> Option<LogView> {
    let bytes: &[u8; LOG_VIEW] = bytes.try_into().ok()?;
    let number = |range: std::ops::Range<usize>| {
        bytes[range]
            .iter()
            .fold(0, |number, byte| number << 8 | u64::from(*byte))
    };
    Some(LogView {
        used: number(0..5),
        last: Timestamp::from_micros(number(5..12)),
        next: Timestamp::from_micros(number(12..19)),
        retry: Timestamp::from_micros(number(19..26)),
    })
}

#[cfg(test)]
mod tests {
    use crate::domain::time::Micros;
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::decide::group::decide;
    use crate::domain::check::OnStoreFailure;
    use crate::domain::limit::{Limit, LimitSpec, Period, Unit};

    fn limit(algorithm: Algorithm) -> Limit {
        Limit::new(LimitSpec {
            name: Arc::from("limit"),
            named: true,
            count: 10,
            period: Period::one(Unit::Minute),
            algorithm,
            burst: None,
            delay: if algorithm == Algorithm::LeakyBucket {
                Micros::SECOND
            } else {
                Micros::ZERO
            },
            calendar: true,
        })
        .expect("a sound limit")
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let length = prop_oneof![0_usize..40, prop::sample::select(vec![FIXED, SLIDING, LOG_VIEW])];
        let one = prop_oneof![
            3 => length.prop_flat_map(|length| prop::collection::vec(any::<u8>(), length)).prop_map(Value::BulkString),
            1 => Just(Value::Nil),
            1 => any::<i64>().prop_map(Value::Int),
            1 => any::<f64>().prop_map(Value::Double),
        ];
        one.prop_recursive(2, 16, 6, |inner| {
            prop::collection::vec(inner, 0..6).prop_map(Value::Array)
        })
    }

    const FIXED: usize = 12;
    const SLIDING: usize = 17;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 5_000, ..ProptestConfig::default() })]

        #[test]
        fn any_answer_is_read_or_refused(
            now in prop_oneof![any_value(), any::<i64>().prop_map(Value::Int), Just(Value::Int(1_790_000_000_000_000))],
            found in prop::collection::vec(any_value(), 0..4),
            algorithms in prop::collection::vec(prop::sample::select(Algorithm::ALL.to_vec()), 1..4),
        ) {
            let limits: Vec<Limit> = algorithms.into_iter().map(limit).collect();
            let check = |limit| Check {
                key: b"key",
                limit,
                hits: Hits::take(1),
                binding: Binding::Always,
                charge: Charge::AllOrNothing,
                on_store_failure: OnStoreFailure::Local,
            };
            let checks: Vec<Check<'_>> = limits.iter().map(check).collect();
            let answer = Value::Array(std::iter::once(now).chain(found).collect());
            if let Some(mut reply) = Reply::read(answer, checks.len()) {
                let group = Group { checks: &checks, longest_wait: Micros::ZERO, compat: false };
                prop_assert_eq!(decide(&group, reply.now, &mut reply).checks.len(), checks.len());
            }
        }
    }
}
