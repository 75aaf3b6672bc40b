//! What a server says of itself in `INFO`, and what of that would bite.

use super::Finding;

/// What counters need of a server, as far as it tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Info {
    /// `Redis 7.0.15`, `Valkey 8.1.0`.
    pub version: String,
    /// The version of the protocol that both count by.
    compatible_with: (u32, u32),
    /// `primary` or `replica`.
    pub role: String,
    /// What it drops when it is full.
    pub eviction: String,
    /// The bytes it may hold; 0 for as many as there are.
    pub max_memory: u64,
    /// The bytes it holds.
    pub used_memory: u64,
    /// Keys it has dropped for want of room since it started.
    pub evicted: u64,
    /// Whether it is a node of a cluster.
    pub is_node: bool,
}

impl Info {
    /// Reads what `INFO` answers.
    pub(super) fn read(text: &str) -> Self {
        let value = |name: &str| {
            text.lines()
                .find_map(|line| line.trim_end().strip_prefix(name)?.strip_prefix(':'))
                .unwrap_or_default()
        };
        let number = |name| value(name).parse().unwrap_or_default();
        let version = value("redis_version");
        Self {
            version: match value("valkey_version") {
                "" => format!("Redis {version}"),
                valkey => format!("Valkey {valkey}"),
            },
            compatible_with: major_and_minor(version),
            role: match value("role") {
                "master" => String::from("primary"),
                "slave" => String::from("replica"),
                other => other.to_owned(),
            },
            eviction: value("maxmemory_policy").to_owned(),
            max_memory: number("maxmemory"),
            used_memory: number("used_memory"),
            evicted: number("evicted_keys"),
            is_node: value("cluster_enabled") == "1",
        }
    }

    /// What would bite, where a server `is_asked_as_node` of a cluster or by itself.
    pub(super) fn findings(&self, is_asked_as_node: bool) -> Vec<Finding> {
        let mut findings = Vec::new();
        if self.compatible_with < (6, 2) {
            findings.push(Finding::bites(format!(
                "{} is too old: 6.2 is the least",
                self.version
            )));
        }
        if !matches!(self.eviction.as_str(), "noeviction" | "volatile-ttl") {
            let what = format!(
                "with maxmemory-policy {} a full Redis drops counters, and their callers get a fresh budget: set \
                 noeviction or volatile-ttl",
                self.eviction
            );
            findings.push(if self.max_memory > 0 {
                Finding::bites(what)
            } else {
                Finding::note(format!("{what} (it has no maxmemory now)"))
            });
        }
        if self.evicted > 0 {
            findings.push(Finding::note(format!(
                "{} keys were dropped for want of room since it started",
                self.evicted
            )));
        }
        if self.is_node && !is_asked_as_node {
            findings.push(Finding::bites(String::from(
                "it is a node of a cluster: --store redis-cluster://HOST:PORT,HOST:PORT",
            )));
        }
        if self.role == "replica" && !is_asked_as_node {
            findings.push(Finding::bites(String::from(
                "it is a replica and takes no writes",
            )));
        }
        findings
    }
}

fn major_and_minor(version: &str) -> (u32, u32) {
    let mut numbers = version
        .split('.')
        .map(|number| number.parse().unwrap_or_default());
    (
        numbers.next().unwrap_or_default(),
        numbers.next().unwrap_or_default(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(more: &str) -> Info {
        Info::read(&format!(
            "# Server\r\nredis_version:7.0.15\r\nrole:master\r\nmaxmemory_policy:noeviction\r\nmaxmemory:0\r\n\
             used_memory:1000\r\nused_memory_human:1K\r\n{more}"
        ))
    }

    fn biting(info: &Info, is_node: bool) -> Vec<String> {
        let findings = info.findings(is_node);
        let biting = findings.into_iter().filter(|finding| finding.bites);
        biting.map(|finding| finding.what).collect()
    }

    #[test]
    fn a_server_as_it_should_be_has_nothing_that_bites() {
        let info = info("");
        assert_eq!(info.version, "Redis 7.0.15");
        assert_eq!(info.role, "primary");
        assert_eq!(info.used_memory, 1000);
        assert_eq!(info.findings(false), []);
    }

    #[test]
    fn valkey_is_named_and_goes_by_what_it_is_compatible_with() {
        let info = info("valkey_version:8.1.0\r\n");
        assert_eq!(info.version, "Valkey 8.1.0");
        assert_eq!(info.findings(false), []);
    }

    #[test]
    fn what_bites_is_found() {
        for (line, is_node, word) in [
            ("redis_version:6.0.16", false, "too old"),
            (
                "maxmemory_policy:allkeys-lru\r\nmaxmemory:100",
                false,
                "noeviction",
            ),
            (
                "maxmemory_policy:volatile-lru\r\nmaxmemory:100",
                true,
                "noeviction",
            ),
            ("cluster_enabled:1", false, "redis-cluster://"),
            ("role:slave", false, "replica"),
        ] {
            let text =
                format!("{line}\r\nredis_version:7.2.0\r\nrole:master\r\nmaxmemory_policy:noeviction\r\n");
            let found = biting(&Info::read(&text), is_node);
            assert_eq!(found.len(), 1, "{line}: {found:?}");
            assert!(found[0].contains(word), "{line}: {found:?}");
        }
    }

    #[test]
    fn what_could_bite_later_is_noted() {
        let unlimited =
            Info::read("redis_version:7.2.0\r\nmaxmemory_policy:allkeys-lru\r\nevicted_keys:3\r\n");
        assert_eq!(biting(&unlimited, false), [""; 0]);
        assert_eq!(unlimited.findings(false).len(), 2);
    }
}
