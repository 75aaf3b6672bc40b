//! Three instances on one Redis with faults at random, and every answer that they give held against what was promised:
//!
//! - what is admitted is within the promise of each mode, over every interval ([`promises`] says which they are);
//! - every call has an answer within its caller's deadline, none is an error, and whom no limit stops is never refused;
//! - soon after the last fault all instances decide with Redis again.
//!
//! The faults are drawn from a seed, so that a history can be had once more. For half of the time the instances hear of
//! each other through Redis, for the other half they are told how many they are. `tests/history` runs it for longer, and
//! from another seed each time.

mod interval;
mod load;
mod promises;
mod record;
mod rules;
mod schedule;
mod stage;

use std::io::Write;
use std::time::{Duration, Instant};

use comporta::domain::time::Micros;

use self::load::Load;
use self::promises::{Kept, Mode};
use self::record::{Call, History, Zero};
use self::rules::{RULES, STEADY};
use self::schedule::{Schedule, Schedules};
use self::stage::Stage;
use crate::harness::comporta::Comporta;
use crate::redis_faults::load::{DEADLINE, Outcome};

const INSTANCES: usize = 3;

/// One from which every fault comes within the seconds of the test command.
const SEED: u64 = 49;

const SECONDS: u64 = 20;

/// How much later instances are back on a machine that is busy with other things.
const NOISE: Duration = Duration::from_secs(2);

#[test]
fn what_is_admitted_is_within_the_promise_of_each_mode() {
    let seed = setting("COMPORTA_HISTORY_SEED").unwrap_or(SEED);
    let seconds = setting("COMPORTA_HISTORY_SECONDS").unwrap_or(SECONDS);
    let mut schedules = Schedules::seeded(seed);
    print(&format!("history of {seconds} s from seed {seed}"));
    let mut all = Vec::new();
    for told in [false, true] {
        let schedule = schedules.draw(seconds / 2);
        let lived = Lived::through(&schedule, told);
        lived.print(if told { "told" } else { "heard" });
        let words = format!("seed {seed}, told: {told}\n{schedule}");
        let kept = promises::kept(&lived.history);
        for kept in &kept {
            assert!(kept.admitted.room() >= 0, "{kept}\n{words}");
        }
        lived.check(&words);
        all.extend(kept);
    }
    print_table(&all);
    for rule in &RULES {
        for mode in [Mode::Exact, Mode::Degraded] {
            let looked_at = all
                .iter()
                .any(|kept| kept.mode == mode && kept.rule.key == rule.key);
            assert!(looked_at, "nothing of {} was admitted: {mode:?}", rule.key);
        }
    }
}

/// What a variable of the environment says.
fn setting(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    let number = value.parse();
    Some(number.unwrap_or_else(|_| panic!("{name} is a number, not `{value}`")))
}

/// A history, and what else is held against it.
struct Lived {
    history: History,
    /// To another instance on the same machine, which has no store that could fail.
    controls: Vec<Call>,
    /// When the last fault had ended.
    ended: Micros,
    /// When all connections had answers of Redis again, and when they had to.
    recovered: Option<Micros>,
    due: Micros,
}

impl Lived {
    /// Starts everything and has it go through `schedule`.
    fn through(schedule: &Schedule, told: bool) -> Self {
        let control = Comporta::serve_text(&rules::policy(), &[]);
        let mut stage = Stage::start(told);
        let zero = Zero(Instant::now());
        let epoch = stage.epoch(zero);
        let load = Load::start(&stage.instances, &control, zero);
        assert!(load.recovered(zero.now()).is_some(), "never there");
        let start = Instant::now();
        let mut losses = Vec::new();
        let mut ended = Micros::ZERO;
        let mut due = Micros::ZERO;
        for step in &schedule.steps {
            let (loss, end) = stage.endure(step, start, zero);
            losses.extend(loss);
            ended = end;
            due = due.max(Micros::new(end.get() + micros(step.back_within())));
        }
        let recovered = load.recovered(ended);
        std::thread::sleep(
            (start + Duration::from_secs(schedule.seconds)).saturating_duration_since(Instant::now()),
        );
        let (calls, controls) = load.stop();
        for comporta in &stage.instances {
            let printed = comporta.printed();
            assert!(!printed.contains("this is a bug"), "{printed}");
        }
        Self {
            history: History {
                instances: INSTANCES as u32,
                calls,
                epoch,
                losses,
            },
            controls,
            ended,
            recovered,
            due,
        }
    }

    /// Holds all but the limits against it.
    fn check(&self, words: &str) {
        let (mut late, mut unexcused) = (0, Vec::new());
        for call in &self.history.calls {
            match &call.outcome {
                Outcome::Answered { admitted, .. } => {
                    assert!(
                        *admitted || call.question.whose != STEADY.whose,
                        "{call:?}\n{words}"
                    );
                }
                Outcome::Failed(status) if call.took() < DEADLINE => panic!("{status}: {call:?}\n{words}"),
                Outcome::Failed(_) => {
                    late += 1;
                    unexcused.extend((!self.is_excused(call)).then_some(call));
                }
            }
        }
        let calls = self.history.calls.len();
        let slow = self.controls.iter().filter(|control| is_slow(control)).count();
        let most = calls / 20 + calls * slow / self.controls.len();
        assert!(late <= most, "{late} late, more than {most}\n{words}");
        // Now and then the machine keeps one process waiting and the other not.
        assert!(unexcused.len() <= calls / 1_000, "{unexcused:#?}\n{words}");
        let recovered = self.recovered.unwrap_or_else(|| panic!("never back\n{words}"));
        let meanwhile = |control: &&Call| control.answered >= self.ended && control.due <= recovered;
        let was_busy = self.controls.iter().filter(meanwhile).any(is_slow);
        let due = self.due.get() + if was_busy { micros(NOISE) } else { 0 };
        assert!(
            recovered.get() <= due,
            "back at {recovered}, not {}\n{words}",
            self.due
        );
    }

    /// Whether a call may have had no answer within its deadline because the machine was busy with other things.
    fn is_excused(&self, call: &Call) -> bool {
        [call.sent, call.answered]
            .into_iter()
            .any(|moment| self.is_busy(moment))
    }

    /// Whether the machine was busy with other things about that time: the other instance, which waits for nobody, was
    /// slow as well.
    fn is_busy(&self, moment: Micros) -> bool {
        const ABOUT: u64 = 500_000;
        let about = |control: &&Call| {
            control.due.get() <= moment.get() + ABOUT && moment.get() <= control.answered.get() + ABOUT
        };
        self.controls.iter().filter(about).any(is_slow)
    }

    fn print(&self, name: &str) {
        let calls = &self.history.calls;
        let count = |which: fn(&Call) -> bool| calls.iter().filter(|call| which(call)).count();
        let back = self
            .recovered
            .map(|back| back.saturating_sub(self.ended).to_string());
        print(&format!(
            "{name:<8} {:>7} calls, {} degraded, {} late, {} losses of memory; back after {}",
            calls.len(),
            count(Call::is_degraded),
            count(|call| matches!(call.outcome, Outcome::Failed(_))),
            self.history.losses.len(),
            back.unwrap_or_else(|| "all, never".to_owned()),
        ));
    }
}

/// Whether a call that had nobody to wait for took so long that the machine must have been busy with other things.
fn is_slow(control: &Call) -> bool {
    control.answered.saturating_sub(control.due).get() >= micros(DEADLINE) / 5
}

/// Of each rule and mode, the interval with least room.
fn print_table(kept: &[Kept]) {
    print("admitted/promised            exact      degraded         whole");
    for rule in &RULES {
        let cells = [Mode::Exact, Mode::Degraded, Mode::Whole].map(|mode| {
            let of = kept
                .iter()
                .filter(|kept| kept.mode == mode && kept.rule.key == rule.key);
            let tightest = of.min_by_key(|kept| kept.admitted.room());
            tightest.map_or_else(String::new, |kept| {
                format!("{}/{}", kept.admitted.hits, kept.admitted.promised)
            })
        });
        let [exact, degraded, whole] = cells;
        print(&format!(
            "{:<20} {exact:>13} {degraded:>13} {whole:>13}",
            rule.key
        ));
    }
}

/// Past the tests' own capture, which shows it only when they fail. An error says that nobody looks.
fn print(line: &str) {
    let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).expect("a short time")
}
