//! What processes use, as Linux tells it. Elsewhere nothing is known.

use std::fs;
use std::path::Path;
use std::time::Duration;

/// How long the threads of a process have computed. Those that have ended are not counted.
pub(super) fn cpu(process: u32) -> Option<Duration> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).ok()?;
    threads
        // One that ends meanwhile is none that serves.
        .filter_map(|thread| computed(&thread.ok()?.path().join("schedstat")))
        .reduce(|all, one| all + one)
}

/// How long this thread has computed.
pub(super) fn thread_cpu() -> Option<Duration> {
    computed(Path::new("/proc/thread-self/schedstat"))
}

fn computed(file: &Path) -> Option<Duration> {
    let text = fs::read_to_string(file).ok()?;
    let nanos = text.split_whitespace().next()?;
    Some(Duration::from_nanos(nanos.parse().ok()?))
}

/// How long all processors together have computed for anybody, or were taken away from this machine by its host.
pub(super) fn machine_cpu() -> Option<Duration> {
    let text = fs::read_to_string("/proc/stat").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    busy(line)
}

/// `line` is in hundredths of a second: user, nice, system, idle, waiting, two kinds of interrupts, stolen.
fn busy(line: &str) -> Option<Duration> {
    let ticks: Vec<u64> = line
        .split_whitespace()
        .map(|ticks| ticks.parse().ok())
        .collect::<Option<_>>()?;
    let busy = [0, 1, 2, 5, 6, 7].map(|place| ticks.get(place).copied().unwrap_or_default());
    Some(Duration::from_millis(busy.iter().sum::<u64>() * 10))
}

/// How much memory a process holds, in bytes.
pub(super) fn resident(process: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_computed_and_holds_memory() {
        // Told when a thread has been at it for some milliseconds, or has paused.
        while thread_cpu().expect("Linux") == Duration::ZERO {}
        let machine = machine_cpu().expect("Linux");
        assert!(cpu(std::process::id()).expect("Linux") > Duration::ZERO);
        assert!(machine_cpu().expect("Linux") >= machine && machine > Duration::ZERO);
        assert!(resident(std::process::id()).expect("Linux") > 1 << 20);
    }

    #[test]
    fn a_processor_that_waits_is_not_busy() {
        let busy = busy(" 1 20 300 9999 9999 4000 50000 600000 7 7").expect("ticks");
        assert_eq!(busy, Duration::from_millis(6_543_210));
    }

    #[test]
    fn of_a_process_that_is_not_there_nothing_is_known() {
        assert_eq!(cpu(u32::MAX), None);
        assert_eq!(resident(u32::MAX), None);
    }
}
