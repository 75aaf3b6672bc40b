//! Which faults there will be, and when: drawn in advance, all of it from one seed.

use std::fmt;
use std::time::Duration;

use super::INSTANCES;
use crate::harness::proxy::Mode;
use crate::twin::dice::Dice;

/// What happens to Redis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fault {
    /// It is killed, and comes back empty.
    Killed,
    /// It stands still.
    Stopped,
    /// Its connections are closed, again and again.
    ConnectionsKilled,
    /// It forgets its scripts, again and again.
    ScriptsFlushed,
    /// It hands over to its replica, which has all it had.
    HandedOver,
    /// It is made a replica of its replica, whatever that lacks.
    Demoted,
}

const FAULTS: [Fault; 6] = [
    Fault::Killed,
    Fault::Stopped,
    Fault::ConnectionsKilled,
    Fault::ScriptsFlushed,
    Fault::HandedOver,
    Fault::Demoted,
];

/// The network between some instances and Redis, but not all of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Partition {
    /// What becomes of what is sent.
    pub mode: Mode,
    /// Which instances are cut off.
    pub cut_off: [bool; INSTANCES],
}

/// What is wrong for a time: at least one of the two.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// When it begins.
    pub at: Duration,
    /// How long it lasts.
    pub lasts: Duration,
    pub fault: Option<Fault>,
    pub partition: Option<Partition>,
}

/// Before the first step.
const START: Duration = Duration::from_millis(700);

/// After the last one, at least.
const END: Duration = Duration::from_millis(1_500);

/// A part of a history: so long, with these steps.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    pub seconds: u64,
    pub steps: Vec<Step>,
}

/// Schedules of histories, one after the other: the same from the same seed.
pub struct Schedules {
    dice: Dice,
    /// What comes in the next steps, so that all there is comes soon.
    faults: Vec<Fault>,
    modes: Vec<Mode>,
}

impl Schedules {
    pub fn seeded(seed: u64) -> Self {
        Self {
            dice: Dice::seeded(seed),
            faults: Vec::new(),
            modes: Vec::new(),
        }
    }

    /// The next.
    pub fn draw(&mut self, seconds: u64) -> Schedule {
        let mut steps = Vec::new();
        let mut at = START;
        loop {
            let lasts = self.millis(100, 1_300);
            if at + lasts + END > Duration::from_secs(seconds) {
                return Schedule { seconds, steps };
            }
            let what = self.dice.below(5);
            steps.push(Step {
                at,
                lasts,
                fault: (what < 3).then(|| self.fault()),
                partition: (what > 1).then(|| self.partition()),
            });
            at += lasts + self.millis(200, 1_800);
        }
    }

    fn fault(&mut self) -> Fault {
        if self.faults.is_empty() {
            use Fault::{ConnectionsKilled, Demoted, HandedOver, Killed, ScriptsFlushed, Stopped};
            self.faults = vec![
                Killed,
                Stopped,
                ConnectionsKilled,
                ScriptsFlushed,
                HandedOver,
                Demoted,
            ];
        }
        let place = self.dice.below(self.faults.len() as u64);
        self.faults.swap_remove(place as usize)
    }

    fn partition(&mut self) -> Partition {
        if self.modes.is_empty() {
            use Mode::{BlackHole, Cut, Delay, DropReplies, HalfClose};
            self.modes = vec![BlackHole, Delay(self.millis(5, 60)), DropReplies, Cut, HalfClose];
        }
        let place = self.dice.below(self.modes.len() as u64);
        // One or two of three.
        let odd = self.dice.below(INSTANCES as u64) as usize;
        let alone = self.dice.one_in(2);
        Partition {
            mode: self.modes.swap_remove(place as usize),
            cut_off: std::array::from_fn(|instance| (instance == odd) == alone),
        }
    }

    fn millis(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(from + self.dice.below(to - from))
    }
}

impl Step {
    /// When it ends.
    pub fn end(&self) -> Duration {
        self.at + self.lasts
    }

    /// How long after its end Redis must decide again. Where nothing but their silence tells that connections are of no
    /// use, that takes longer.
    pub fn back_within(&self) -> Duration {
        Duration::from_secs(if self.partition.is_some() { 5 } else { 2 })
    }
}

impl fmt::Display for Step {
    /// One line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:>9} for {:>6}:",
            format!("{:?}", self.at),
            format!("{:?}", self.lasts)
        )?;
        if let Some(fault) = self.fault {
            write!(f, " {fault:?}")?;
        }
        if let Some(Partition { mode, cut_off }) = self.partition {
            let cut_off = (0..INSTANCES).filter(|instance| cut_off[*instance]);
            write!(f, " {mode:?} to instances {:?}", cut_off.collect::<Vec<_>>())?;
        }
        Ok(())
    }
}

impl fmt::Display for Schedule {
    /// One line for each step.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.steps.iter().try_for_each(|step| writeln!(f, "{step}"))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::mem::discriminant;

    use super::super::{SECONDS, SEED};
    use super::*;

    /// How many there are, but for the one that lets everything pass.
    const MODES: usize = 5;

    fn drawn(seed: u64, seconds: u64) -> [Schedule; 2] {
        let mut schedules = Schedules::seeded(seed);
        [(); 2].map(|()| schedules.draw(seconds))
    }

    #[test]
    fn the_same_seed_is_the_same_faults() {
        for seed in 0..100 {
            assert_eq!(drawn(seed, 10), drawn(seed, 10));
            assert_ne!(drawn(seed, 10), drawn(seed + 1, 10));
        }
    }

    #[test]
    fn the_test_command_has_every_fault() {
        let steps: Vec<_> = drawn(SEED, SECONDS / 2)
            .into_iter()
            .flat_map(|schedule| schedule.steps)
            .collect();
        for fault in FAULTS {
            assert!(steps.iter().any(|step| step.fault == Some(fault)), "no {fault:?}");
        }
        let modes: HashSet<_> = steps
            .iter()
            .filter_map(|step| Some(discriminant(&step.partition?.mode)))
            .collect();
        assert_eq!(modes.len(), MODES);
        assert!(
            steps
                .iter()
                .any(|step| step.fault.is_some() && step.partition.is_some())
        );
    }

    #[test]
    fn steps_come_one_after_the_other_with_quiet_between_and_after_them() {
        for Schedule { seconds, steps } in (0..100).flat_map(|seed| drawn(seed, 60)) {
            assert!(steps.len() > 20, "{} steps", steps.len());
            assert!(steps[0].at >= START);
            assert!(
                steps
                    .windows(2)
                    .all(|two| two[0].end() + Duration::from_millis(200) <= two[1].at)
            );
            assert!(steps[steps.len() - 1].end() + END <= Duration::from_secs(seconds));
            for step in steps {
                assert!(step.fault.is_some() || step.partition.is_some());
                let cut_off =
                    |partition: Partition| partition.cut_off.iter().filter(|cut_off| **cut_off).count();
                assert!(
                    step.partition
                        .is_none_or(|partition| [1, 2].contains(&cut_off(partition)))
                );
            }
        }
    }

    #[test]
    fn every_fault_comes_before_one_comes_again() {
        let [schedule, _] = drawn(7, 120);
        let faults: Vec<_> = schedule.steps.iter().filter_map(|step| step.fault).collect();
        for round in faults.chunks_exact(6) {
            for (place, fault) in round.iter().enumerate() {
                assert!(!round[..place].contains(fault), "{round:?}");
            }
        }
        assert!(faults.len() >= 12, "{faults:?}");
    }
}
