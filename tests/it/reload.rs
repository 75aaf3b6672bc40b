//! Edits of the policy while the server runs, made in every way that people and machines make them.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use comporta::proto::envoy::service::ratelimit::v3::rate_limit_response::DescriptorStatus;
use tempfile::TempDir;

use crate::harness::comporta::{Client, Comporta, admitted, command, request};
use crate::harness::http;
use crate::harness::process::poll;

/// A policy with one rule, on `client`.
fn limit(limit: &str) -> String {
    format!("domain: edge\ndescriptors:\n  - key: client\n    rate_limit: {{ {limit} }}\n")
}

/// So many a day.
fn daily(count: u32) -> String {
    limit(&format!("rate: {count}/day"))
}

/// A folder, and a server that goes by a policy file in it.
struct Bench {
    folder: TempDir,
    comporta: Comporta,
    client: Client,
}

impl Bench {
    fn new(policy: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("policy.yaml"), policy).expect("written");
        let path = folder.path().join("policy.yaml");
        Self::serve(folder, &path)
    }

    fn serve(folder: TempDir, path: &Path) -> Self {
        let comporta = Comporta::serve(path, &[]);
        let client = comporta.client();
        Self {
            folder,
            comporta,
            client,
        }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("policy.yaml")
    }

    /// Writes the file anew where it is.
    fn edit(&self, policy: &str) {
        fs::write(self.file(), policy).expect("written");
    }

    /// Puts another file in the place of the one that is there.
    fn replace(&self, policy: &str) {
        let next = self.folder.path().join(".policy.yaml.next");
        fs::write(&next, policy).expect("written");
        fs::rename(next, self.file()).expect("renamed");
    }

    /// What `/policy` says.
    fn policy(&self) -> serde_json::Value {
        let page = http::get::<&str>(self.comporta.admin(), "/policy", &[]);
        assert_eq!(page.header("content-type"), "application/json");
        serde_json::from_str(&page.body).expect("JSON")
    }

    fn generation(&self) -> u64 {
        self.policy()["generation"].as_u64().expect("a number")
    }

    /// Waits for the load that is the `generation`th, with nothing wrong about it.
    fn wait_for(&self, generation: u64) {
        poll("the next policies", || {
            let policy = self.policy();
            (policy["generation"] == generation && policy["last_error"].is_null()).then_some(())
        });
    }

    /// Waits until what is there was rejected, and returns why.
    fn wait_for_rejection(&self) -> String {
        let why = poll("a rejection", || {
            self.policy()["last_error"].as_str().map(str::to_owned)
        });
        assert!(
            self.comporta
                .metrics()
                .contains("comporta_policy_reload_failed 1\n")
        );
        why
    }

    fn count(&self, outcome: &str) -> u32 {
        let series = format!("comporta_policy_reloads_total{{outcome=\"{outcome}\"}} ");
        let metrics = self.comporta.metrics();
        let line = metrics.lines().find_map(|line| line.strip_prefix(&series));
        line.expect("such a series").parse().expect("a number")
    }

    fn admits(&self) -> bool {
        self.client.admits("edge", "client=ana")
    }

    /// What a look at ana's budget shows.
    fn look(&self) -> DescriptorStatus {
        let mut look = request("edge", &["client=ana"]);
        look.descriptors[0].hits_addend = Some(0);
        self.client.send(look).expect("an answer").statuses.remove(0)
    }

    fn limit(&self) -> u32 {
        self.look().current_limit.expect("a limit").requests_per_unit
    }
}

#[test]
fn an_edited_file_is_in_force_without_a_restart() {
    let mut bench = Bench::new(&daily(10));
    let before = bench.policy();
    bench.edit(&daily(20));
    bench.wait_for(2);
    assert_eq!(bench.limit(), 20);
    bench.replace(&daily(30));
    bench.wait_for(3);
    assert_eq!(bench.limit(), 30);
    let after = bench.policy();
    assert_ne!(before["hash"], after["hash"]);
    assert!(before["loaded_at"].as_str() < after["loaded_at"].as_str());
    assert_eq!(after["files"], serde_json::json!([bench.file()]));
    assert_eq!(after["domains"], serde_json::json!(["edge"]));
    assert_eq!(after["rules"], 1);
    let metrics = bench.comporta.metrics();
    let hash = after["hash"].as_str().expect("a hash");
    for line in [
        "comporta_policy_generation 3\n",
        "comporta_policy_reload_failed 0\n",
        "comporta_policy_reloads_total{outcome=\"accepted\"} 2\n",
        &format!("comporta_policy_info{{hash=\"{hash}\"}} 1\n"),
    ] {
        assert!(metrics.contains(line), "{line}{metrics}");
    }
    // Going back is an edit like any other; one line of the log names both.
    bench.replace(&daily(10));
    bench.wait_for(4);
    assert_eq!(bench.policy()["hash"], before["hash"]);
    bench
        .comporta
        .wait_for_line(&format!("new_hash={}", before["hash"]));
    let printed = bench.comporta.printed();
    let line = printed
        .lines()
        .find(|line| line.contains("generation=4"))
        .expect("a line about it");
    assert!(line.contains(&format!("old_hash={}", after["hash"])), "{line}");
}

#[test]
fn what_was_used_stays_used_when_another_rule_changes() {
    let two = |other: &str| {
        format!(
            "{}  - key: other\n    rate_limit: {{ {other} }}\n",
            limit("rate: 3/day, burst: 3")
        )
    };
    let bench = Bench::new(&two("rate: 10/minute"));
    for admits in [true, true, true, false] {
        assert_eq!(bench.admits(), admits);
    }
    bench.edit(&two("rate: 1000/minute"));
    bench.wait_for(2);
    assert!(!bench.admits());
}

#[test]
fn a_raised_limit_gives_the_rest_at_once() {
    let bench = Bench::new(&daily(10));
    let admitted = |calls| (0..calls).filter(|_| bench.admits()).count();
    assert_eq!(admitted(50), 10);
    bench.edit(&daily(20));
    bench.wait_for(2);
    assert_eq!(admitted(11), 10);
}

#[test]
fn a_lowered_limit_holds_in_the_running_window() {
    let bench = Bench::new(&daily(100));
    assert!(bench.admits());
    bench.edit(&daily(10));
    bench.wait_for(2);
    assert!(bench.admits());
    let look = bench.look();
    assert_eq!(look.current_limit.expect("a limit").requests_per_unit, 10);
    assert_eq!(look.limit_remaining, 8);
    bench.edit(&daily(2));
    bench.wait_for(3);
    assert!(!bench.admits());
}

#[test]
fn another_algorithm_counts_afresh_and_the_log_says_so() {
    let mut bench = Bench::new(&limit("rate: 1/day"));
    assert!(bench.admits());
    assert!(!bench.admits());
    bench.edit(&limit("rate: 1/day, algorithm: fixed_window"));
    bench.wait_for(2);
    bench
        .comporta
        .wait_for_line("counts afresh: edge: client: it is a fixed_window instead of a sliding_window");
    assert!(bench.admits());
    assert!(!bench.admits());
}

#[test]
fn a_bad_set_changes_nothing_and_is_seen_until_it_is_mended() {
    let mut bench = Bench::new(&daily(1));
    assert!(bench.admits());
    let good = daily(2);
    let file = bench.file().display().to_string();
    for (rejected, (bad, problem)) in (1..).zip([
        (String::new(), format!("{file}:")),
        (
            "domain: edge\n\tdescriptors:\n".to_owned(),
            format!("{file}:1:9: "),
        ),
        // Half of a file, as one that is still being written.
        (good[..good.len() - 4].to_owned(), format!("{file}:")),
        (good.replace("rate:", "rat:"), format!("{file}:4:19: ")),
    ]) {
        bench.edit(&bad);
        poll("a rejection", || {
            (bench.count("rejected") == rejected).then_some(())
        });
        let why = bench.wait_for_rejection();
        assert!(why.contains(&problem), "{why}");
        bench.comporta.wait_for_line(&problem);
        assert_eq!(bench.generation(), 1);
        assert!(!bench.admits());
        assert_eq!(
            http::get::<&str>(bench.comporta.admin(), "/ready", &[]).status,
            200
        );
    }
    bench.edit(&good);
    bench.wait_for(2);
    assert!(
        bench
            .comporta
            .metrics()
            .contains("comporta_policy_reload_failed 0\n")
    );
    assert!(bench.admits());
    assert!(!bench.admits());
}

#[test]
fn every_problem_of_a_set_is_said() {
    let mut bench = Bench::new(&daily(1));
    bench.edit(
        "domain: edge\ndescriptors:\n  - key: a\n    nonsense: 1\n  - key: b\n    rate_limit: { rate: x }\n",
    );
    let why = bench.wait_for_rejection();
    assert_eq!(why.lines().count(), 2, "{why}");
    for line in why.lines() {
        bench.comporta.wait_for_line(line);
    }
}

#[test]
fn what_would_not_be_served_is_not_taken_over() {
    let bench = Bench::new(&daily(1));
    let delays = limit("rate: 100/1s, burst: 5")
        .replace("    rate_limit", "    on_excess: { delay: 15ms }\n    rate_limit");
    bench.edit(&delays);
    let why = bench.wait_for_rejection();
    let served = command([OsStr::new("serve"), bench.file().as_os_str()])
        .output()
        .expect("the binary");
    assert_eq!(served.status.code(), Some(1));
    assert_eq!(String::from_utf8_lossy(&served.stderr), why + "\n");
    assert_eq!(bench.generation(), 1);
    assert!(bench.admits());
    assert!(!bench.admits());
}

#[test]
fn scripts_are_answered_by_the_same_policy_as_gateways() {
    let bench = Bench::new(&daily(1));
    let ask = r#"{"domain":"edge","descriptors":[{"entries":[{"key":"client","value":"ana"}]}]}"#;
    let status = || http::send("POST", bench.comporta.admin(), "/json", ask).status;
    assert_eq!(status(), 200);
    assert_eq!(status(), 429);
    bench.edit(&daily(2));
    bench.wait_for(2);
    assert_eq!(status(), 200);
    assert_eq!(status(), 429);
    assert!(!bench.admits());
}

#[test]
fn a_file_that_is_gone_or_unreadable_leaves_its_policy_in_force() {
    let bench = Bench::new(&daily(10));
    fs::remove_file(bench.file()).expect("removed");
    assert!(bench.wait_for_rejection().contains("no such file or folder"));
    assert_eq!(bench.limit(), 10);
    // A link to itself is what cannot be read, by root either.
    symlink("policy.yaml", bench.file()).expect("linked");
    poll("another reason", || {
        bench
            .wait_for_rejection()
            .contains("cannot be read")
            .then_some(())
    });
    // The same as before is no other load.
    bench.replace(&daily(10));
    bench.wait_for(1);
    assert!(
        bench
            .comporta
            .metrics()
            .contains("comporta_policy_reload_failed 0\n")
    );
    fs::remove_file(bench.file()).expect("removed");
    bench.wait_for_rejection();
    bench.edit(&daily(20));
    bench.wait_for(2);
    assert_eq!(bench.limit(), 20);
}

#[test]
fn a_folder_may_go_and_come_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let set = folder.path().join("set");
    let put = |count| {
        fs::create_dir_all(&set).expect("made");
        fs::write(set.join("a.yaml"), daily(count)).expect("written");
    };
    put(10);
    let bench = Bench::serve(folder, &set);
    for (generation, count) in [(2, 20), (3, 30)] {
        fs::remove_dir_all(&set).expect("removed");
        bench.wait_for_rejection();
        put(count);
        bench.wait_for(generation);
        assert_eq!(bench.limit(), count);
    }
    // The new folder is watched as the old one was.
    put(40);
    bench.wait_for(4);
    // One more file, and one less.
    let other = set.join("b.yaml");
    fs::write(&other, "domain: other\ndescriptors:\n  - key: user\n").expect("written");
    bench.wait_for(5);
    assert_eq!(bench.policy()["domains"], serde_json::json!(["edge", "other"]));
    fs::remove_file(other).expect("removed");
    bench.wait_for(6);
    assert_eq!(bench.policy()["domains"], serde_json::json!(["edge"]));
}

/// A folder as kubelet mounts a ConfigMap.
struct ConfigMap {
    folder: PathBuf,
    versions: u32,
}

impl ConfigMap {
    fn new(folder: &Path, files: &[(&str, &str)]) -> Self {
        let mut map = Self {
            folder: folder.to_owned(),
            versions: 0,
        };
        map.update(files);
        for (name, _) in files {
            symlink(format!("..data/{name}"), folder.join(name)).expect("linked");
        }
        map
    }

    /// As kubelet does it: a new folder, a link to it in the place of the old link, and then the old folder goes.
    fn update(&mut self, files: &[(&str, &str)]) {
        let name = |version| format!("..2026_11_30_12_00_{version:02}.1234");
        let (old, new) = (name(self.versions), name(self.versions + 1));
        self.versions += 1;
        fs::create_dir(self.folder.join(&new)).expect("made");
        for (file, text) in files {
            fs::write(self.folder.join(&new).join(file), text).expect("written");
        }
        symlink(new, self.folder.join("..data_tmp")).expect("linked");
        fs::rename(self.folder.join("..data_tmp"), self.folder.join("..data")).expect("renamed");
        // The first has none before it.
        let _ = fs::remove_dir_all(self.folder.join(old));
    }
}

#[test]
fn a_config_map_is_taken_over_when_its_link_is_swapped() {
    let other = "domain: other\ndescriptors:\n  - key: user\n    rate_limit: { rate: 1/day }\n";
    for file in ["", "edge.yaml"] {
        let folder = tempfile::tempdir().expect("a folder");
        let mut map = ConfigMap::new(folder.path(), &[("edge.yaml", &daily(10)), ("other.yaml", other)]);
        let path = folder.path().join(file);
        let bench = Bench::serve(folder, &path);
        for (generation, count) in [(2, 20), (3, 30)] {
            map.update(&[("edge.yaml", &daily(count)), ("other.yaml", other)]);
            bench.wait_for(generation);
            assert_eq!(bench.limit(), count);
        }
        // Each file once, although there are three ways to it.
        let files = bench.policy()["files"].as_array().expect("files").len();
        assert_eq!(files, if file.is_empty() { 2 } else { 1 });
        map.update(&[("edge.yaml", ""), ("other.yaml", other)]);
        assert!(bench.wait_for_rejection().contains("edge.yaml"));
        assert_eq!(bench.limit(), 30);
        map.update(&[("edge.yaml", &daily(40)), ("other.yaml", other)]);
        bench.wait_for(4);
        assert_eq!(bench.limit(), 40);
    }
}

#[test]
fn a_hang_up_reads_the_files_again_and_answers_in_any_case() {
    let bench = Bench::new(&daily(10));
    bench.comporta.hang_up();
    poll("an answer", || (bench.count("unchanged") == 1).then_some(()));
    assert_eq!(bench.generation(), 1);
    bench.edit(&daily(20));
    bench.comporta.hang_up();
    bench.wait_for(2);
    bench.edit("");
    bench.wait_for_rejection();
    let rejected = bench.count("rejected");
    bench.comporta.hang_up();
    poll("an answer", || (bench.count("rejected") > rejected).then_some(()));
    assert_eq!(bench.limit(), 20);
}

#[test]
fn many_writes_in_a_row_are_few_reloads() {
    let bench = Bench::new(&daily(10));
    for count in 11..=60 {
        bench.replace(&daily(count));
    }
    poll("the last of them", || (bench.limit() == 60).then_some(()));
    // One, unless this machine is so busy that the writes took long.
    assert!(bench.generation() <= 4, "{}", bench.policy());
}

#[test]
fn no_call_fails_while_policies_change() {
    let bench = Bench::new(&daily(4_000_000));
    let (stop, callers) = (AtomicBool::new(false), 3);
    let clients: Vec<_> = (0..callers).map(|_| bench.comporta.client()).collect();
    let call = |client: Client| {
        let mut calls = 0_u32;
        while !stop.load(Ordering::Relaxed) {
            let answer = client
                .send(request("edge", &["client=ana"]))
                .unwrap_or_else(|status| panic!("call {calls}: {status:?}"));
            assert!(admitted(&answer), "{answer:?}");
            calls += 1;
        }
        calls
    };
    let calls: u32 = thread::scope(|scope| {
        let calling: Vec<_> = clients
            .into_iter()
            .map(|client| scope.spawn(|| call(client)))
            .collect();
        // Whatever goes wrong here must not leave the callers calling.
        let edited = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for generation in 2..=6 {
                bench.replace(&big(generation));
                bench.wait_for(u64::from(generation));
            }
        }));
        stop.store(true, Ordering::Relaxed);
        let calls = calling
            .into_iter()
            .map(|calls| calls.join().expect("no failed call"))
            .sum();
        edited.expect("five reloads");
        calls
    });
    // Every one of them was counted, under whichever policies.
    let used = 4_000_000 + 6 - bench.look().limit_remaining;
    assert_eq!(used, calls);
}

/// A policy that takes a while to read.
fn big(generation: u32) -> String {
    let mut policy = daily(4_000_000 + generation);
    for rule in 0..3000 {
        policy += &format!("  - key: user\n    value: user-{rule}\n    rate_limit: {{ rate: 10/minute }}\n");
    }
    policy
}
