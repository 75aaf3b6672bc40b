//! What the slots of a cluster hold, and the script that decides there.

use std::collections::{BTreeMap, BTreeSet};

use redis::Value;

use super::super::*;
use crate::decide::group::decide;
use crate::decide::sliding_log::{Log, LogView};
use crate::decide::state::State;
use crate::domain::limit::Algorithm;

/// All that the slots hold. No two share a key.
#[derive(Clone, Default)]
pub(super) struct Kept {
    pub(super) states: BTreeMap<Vec<u8>, State>,
    pub(super) logs: BTreeMap<Vec<u8>, Log>,
    pub(super) unreadable: BTreeSet<Vec<u8>>,
}

impl Counters for Kept {
    fn read(&mut self, _: usize, check: &Check<'_>, asked: u64, now: Timestamp) -> Stored {
        if self.unreadable.contains(check.key) {
            return Stored::Unreadable;
        }
        let view = |log: &Log| log.view(check.limit, asked, now);
        let log = self.logs.get(check.key).map(view).filter(|view| view.used > 0);
        let state = log.map(State::Log).or(self.states.get(check.key).copied());
        state.map_or(Stored::Nothing, Stored::State)
    }

    fn write(&mut self, _: usize, check: &Check<'_>, seen: &Seen, change: Hits) {
        self.unreadable.remove(check.key);
        let key = check.key.to_vec();
        if let State::Log(_) = seen.state {
            let log = self.logs.entry(key).or_default();
            match change {
                Hits::Take(hits) => log.take(check.limit, hits, seen.now),
                Hits::GiveBack(hits) => log.give_back(check.limit, hits, seen.now),
                Hits::Undo(hits, taken) => log.undo(check.limit, hits, taken, seen.now),
                Hits::Look(_) => log.forget(check.limit, seen.now),
            }
        } else if seen.state.is_empty() {
            self.states.remove(&key);
        } else {
            self.states.insert(key, seen.state);
        }
    }
}

impl Kept {
    /// Does what the script does with a group: decides, and answers with what lay there.
    pub(super) fn ask(&mut self, group: &Group<'_>, now: Timestamp) -> Reply {
        let mut script = Script {
            kept: self,
            found: vec![Value::Nil; group.checks.len()],
        };
        decide(group, now, &mut script);
        let moment = Value::Int(i64::try_from(now.as_micros()).expect("this century"));
        let answer = std::iter::once(moment).chain(script.found).collect();
        Reply::read(Value::Array(answer), group.checks.len()).expect("an answer")
    }

    /// What who reads the counter of `check` at `now` can tell of it: of a log when each of its hits leaves. What cannot
    /// be read counts as nothing.
    pub(super) fn content(&mut self, check: &Check<'_>, now: Timestamp) -> Vec<Option<State>> {
        let mut state = |asked| match self.read(0, check, asked, now) {
            Stored::State(state) => Some(state),
            Stored::Nothing | Stored::Unreadable => None,
        };
        if check.limit.algorithm() == Algorithm::SlidingLog {
            (0..=u64::from(check.limit.count())).map(state).collect()
        } else {
            vec![Some(Seen::read(check, state(0), now).state)]
        }
    }
}

struct Script<'a> {
    kept: &'a mut Kept,
    found: Vec<Value>,
}

impl Counters for Script<'_> {
    fn read(&mut self, place: usize, check: &Check<'_>, asked: u64, now: Timestamp) -> Stored {
        let stored = self.kept.read(place, check, asked, now);
        // Where a log is read again, it is for what is left after hits were given back: so the script says it, too.
        self.found[place] = match stored {
            Stored::Nothing => Value::Nil,
            Stored::Unreadable => Value::BulkString(Vec::new()),
            Stored::State(State::Log(view)) => Value::BulkString(bytes_of(&view)),
            Stored::State(state) => Value::BulkString(state.encode().as_bytes().to_vec()),
        };
        stored
    }

    fn write(&mut self, place: usize, check: &Check<'_>, seen: &Seen, change: Hits) {
        self.kept.write(place, check, seen, change);
    }
}

fn bytes_of(view: &LogView) -> Vec<u8> {
    let moments = [view.last, view.next, view.retry].map(|at| at.as_micros().to_be_bytes());
    let moments = moments.iter().flat_map(|bytes| &bytes[1..]);
    let used = view.used.to_be_bytes();
    used[3..].iter().chain(moments).copied().collect()
}
