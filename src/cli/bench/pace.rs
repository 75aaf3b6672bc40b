//! When calls are due.

use std::num::NonZeroU32;
use std::path::Path;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use std::{fs, io};

use tokio::sync::mpsc::UnboundedSender;

use super::meter;

/// When a stream asks next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    /// Once it is answered.
    Closed,
    /// When one of so many calls a second is due, evenly spaced, whatever became of those before it.
    Open(NonZeroU32),
}

/// When calls are due, from the start on.
fn schedule(per_second: NonZeroU32, duration: Duration) -> impl Iterator<Item = Duration> {
    let nanos = move |call: u64| u128::from(call) * 1_000_000_000 / u128::from(per_second.get());
    (0..)
        .map(move |call| Duration::from_nanos(u64::try_from(nanos(call)).unwrap_or(u64::MAX)))
        .take_while(move |due| *due < duration)
}

/// Says to each of `to` in turn when its next call is due, at that moment. What it answers at its end is how long it
/// computed.
///
/// A thread of its own: the runtime's timers are a millisecond apart.
pub(super) fn start(
    per_second: NonZeroU32,
    duration: Duration,
    from: Instant,
    to: Vec<UnboundedSender<Instant>>,
) -> io::Result<JoinHandle<Option<Duration>>> {
    thread::Builder::new().name(String::from("pace")).spawn(move || {
        wake_exactly();
        for (due, to) in schedule(per_second, duration).zip(to.iter().cycle()) {
            let due = from + due;
            thread::sleep(due.saturating_duration_since(Instant::now()));
            if to.send(due).is_err() {
                break;
            }
        }
        meter::thread_cpu()
    })
}

/// Asks the system not to put off this thread's wake-ups, which it does by 50 µs, to spare some. Where it does not listen,
/// calls are that late, and counted so.
fn wake_exactly() {
    if let Ok(thread) = fs::read_link("/proc/thread-self")
        && let Some(thread) = thread.file_name()
    {
        let _ = fs::write(Path::new("/proc").join(thread).join("timerslack_ns"), "1");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_due_evenly_and_do_not_drift() {
        let per_second = NonZeroU32::new(3).expect("not zero");
        let due: Vec<_> = schedule(per_second, Duration::from_secs(2)).collect();
        assert_eq!(due.len(), 6);
        assert_eq!(due[1], Duration::from_nanos(333_333_333));
        assert_eq!(due[3], Duration::from_secs(1));
        let late = schedule(per_second, Duration::from_hours(1)).last();
        assert_eq!(late, Some(Duration::from_nanos(3_599_666_666_666)));
    }

    #[test]
    fn everybody_gets_a_turn_and_then_no_more() {
        let per_second = NonZeroU32::new(1_000_000).expect("not zero");
        let ((one, mut first), (other, mut second)) = (
            tokio::sync::mpsc::unbounded_channel(),
            tokio::sync::mpsc::unbounded_channel(),
        );
        let from = Instant::now();
        let paced = start(per_second, Duration::from_micros(5), from, vec![one, other]).expect("a thread");
        paced.join().expect("no panic");
        let drain = |due: &mut tokio::sync::mpsc::UnboundedReceiver<Instant>| {
            std::iter::from_fn(|| due.try_recv().ok())
                .map(|due| (due - from).as_micros())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            (drain(&mut first), drain(&mut second)),
            (vec![0, 2, 4], vec![1, 3])
        );
        assert!(first.is_closed() && second.is_closed());
    }
}
