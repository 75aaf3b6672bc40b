//! What was measured on, and what was measured.

use std::fs;
use std::num::NonZeroUsize;
use std::thread;

use serde_json::{Value, json};

use super::meter;
use super::redis::version;

/// A machine and the versions on it. What is not known is left out.
pub(super) struct Machine {
    processors: usize,
    model: Option<String>,
    memory_gib: Option<u64>,
    kernel: Option<String>,
    redis: Option<String>,
    /// Whether the system tells what processes use.
    tells: bool,
}

impl Machine {
    pub(super) fn look() -> Self {
        Self {
            processors: thread::available_parallelism().map_or(1, NonZeroUsize::get),
            model: line("/proc/cpuinfo", "model name"),
            memory_gib: line("/proc/meminfo", "MemTotal").and_then(|text| {
                let kilobytes: u64 = text.split_whitespace().next()?.parse().ok()?;
                Some((kilobytes + (1 << 19)) >> 20)
            }),
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease")
                .ok()
                .map(|text| text.trim().to_owned()),
            redis: version(),
            tells: meter::cpu(std::process::id()).is_some(),
        }
    }

    /// `2 processors (AMD EPYC), 24 GiB, Linux 6.18; comporta 0.1.0, redis-server 7.0.15`
    pub(super) fn show(&self) -> String {
        let s = if self.processors == 1 { "" } else { "s" };
        let model = self.model.as_ref().map(|model| format!(" ({model})"));
        let memory = self.memory_gib.map(|memory| format!(", {memory} GiB"));
        let kernel = self.kernel.as_ref().map(|kernel| format!(", Linux {kernel}"));
        let redis = self.redis.as_ref().map(|redis| format!(", {redis}"));
        let tells = if self.tells {
            ""
        } else {
            "; CPU and memory are not known on this system"
        };
        format!(
            "{} processor{s}{}{}{}; {}{}{tells}",
            self.processors,
            model.unwrap_or_default(),
            memory.unwrap_or_default(),
            kernel.unwrap_or_default(),
            build(),
            redis.unwrap_or_default(),
        )
    }

    pub(super) fn as_json(&self) -> Value {
        json!({
            "processors": self.processors,
            "model": self.model,
            "memory_gib": self.memory_gib,
            "kernel": self.kernel,
            "redis": self.redis,
            "comporta": build(),
        })
    }
}

/// The program itself. One that was built for finding mistakes is slow, and has to say so.
fn build() -> String {
    let kind = if cfg!(debug_assertions) {
        " (a debug build: its speed says nothing)"
    } else {
        ""
    };
    format!("comporta {}{kind}", env!("CARGO_PKG_VERSION"))
}

/// What the first line that begins with `name` says behind its colon.
fn line(file: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    let (_, said) = line.split_once(':')?;
    Some(said.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_is_left_out() {
        let mut machine = Machine {
            processors: 2,
            model: Some("AMD EPYC".into()),
            memory_gib: Some(24),
            kernel: Some("6.18".into()),
            redis: Some("redis-server 7.0.15".into()),
            tells: true,
        };
        let shown = machine.show();
        assert!(
            shown.starts_with("2 processors (AMD EPYC), 24 GiB, Linux 6.18; comporta "),
            "{shown}"
        );
        assert!(shown.ends_with(", redis-server 7.0.15"), "{shown}");
        (machine.processors, machine.tells) = (1, false);
        (machine.model, machine.memory_gib, machine.kernel, machine.redis) = (None, None, None, None);
        let shown = machine.show();
        assert!(shown.starts_with("1 processor; comporta "), "{shown}");
        assert!(
            shown.ends_with("; CPU and memory are not known on this system"),
            "{shown}"
        );
    }
}
