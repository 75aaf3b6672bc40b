//! What is known to be refused costs the shared store nothing, and holds no longer than it is true.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use comporta::domain::check::Check;
use comporta::domain::limit::{Algorithm, Unit};
use comporta::domain::quantity::Hits;
use comporta::domain::time::Timestamp;
use comporta::domain::verdict::{Decisions, Reason};
use comporta::proto::envoy::service::ratelimit::v3::RateLimitResponse;
use comporta::proto::envoy::service::ratelimit::v3::rate_limit_response::Code;
use comporta::store::Store;
use comporta::store::memory::Memory;
use comporta::store::refused::{Refusals, Refused};
use prost_types::value::Kind;

use crate::harness::allocator::allocations;
use crate::harness::comporta::{Client, Comporta, admitted, request};
use crate::harness::redis::Redis;
use crate::harness::store::{Silent, check, far, group, limit};

const POLICY: &str = "
domain: edge
plans:
  api:
    free: { rate: 20/day, burst: 20 }
    pro: { rate: 200/day, burst: 200 }
    default: free
descriptors:
  - key: client
    descriptors:
      - key: plan
        rate_limit: { plan: api }
  - key: site
    rate_limit: { rate: 1000/day, burst: 1000 }
  - key: fast
    rate_limit: { rate: 20/second, burst: 20 }
";

const ANA: &str = "client=ana,plan=free";

/// Two workers on one store, and callers on both of them.
fn two_workers(redis: &Redis) -> (Comporta, Vec<Client>) {
    let url = redis.url();
    let flags = [
        ["--store", &url],
        ["--store-budget", "60s"],
        ["--on-store-failure", "error"],
        ["--workers", "2"],
    ];
    let comporta = Comporta::serve_text(POLICY, flags.as_flattened());
    comporta.wait_for_store("edge", "client=nobody,plan=free");
    // Each is handed to the worker that has the fewest.
    let clients = (0..8).map(|_| comporta.client()).collect();
    (comporta, clients)
}

/// How many calls of the script there were so far; now and then one of them is a probe.
fn asked(redis: &Redis) -> usize {
    let stats: String = redis::cmd("INFO")
        .arg("commandstats")
        .query(&mut redis.connect())
        .expect("the statistics");
    let calls = stats
        .lines()
        .find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="))
        .and_then(|line| line.split(',').next())
        .expect("the store was asked");
    calls.parse().expect("a number")
}

fn spend(client: &Client) {
    while client.admits("edge", ANA) {}
}

#[test]
fn an_abuser_at_a_hundred_times_its_limit_costs_the_store_one_call_in_a_hundred() {
    const CALLS: usize = 2_000;
    let redis = Redis::start();
    let (comporta, clients) = two_workers(&redis);
    let before = asked(&redis);
    let passed = (0..CALLS)
        .filter(|call| clients[call % clients.len()].admits("edge", ANA))
        .count();
    let asked = asked(&redis) - before;
    assert_eq!(passed, 20);
    assert!(asked * 1000 <= CALLS * 15, "{asked} calls of {CALLS}");
    let line = format!("comporta_refused_from_memory_total {}\n", CALLS - passed);
    let metrics = comporta.metrics();
    assert!(metrics.contains(&line), "{line} is not in\n{metrics}");
}

#[test]
fn what_comes_back_costs_the_store_little_more_than_a_call_for_each_hit() {
    let redis = Redis::start();
    let (_comporta, clients) = two_workers(&redis);
    let before = asked(&redis);
    let mut passed = 0;
    for client in clients.iter().cycle() {
        passed += usize::from(client.admits("edge", "fast=abuser"));
        if passed == 60 {
            break;
        }
    }
    let asked = asked(&redis) - before;
    assert!(asked <= passed * 3 / 2, "{asked} calls for {passed} hits");
}

#[test]
fn what_was_not_looked_at_shows_no_budget() {
    let redis = Redis::start();
    let (_comporta, clients) = two_workers(&redis);
    spend(&clients[0]);
    let answer = clients[1].ask("edge", &["site=a", ANA]);
    assert!(!admitted(&answer));
    let [site, client] = &answer.statuses[..] else {
        panic!("two statuses: {answer:?}")
    };
    // Envoy skips a status without a limit in its own headers.
    assert_eq!((site.code(), &site.current_limit), (Code::Ok, &None));
    assert_eq!(site.duration_until_reset, None);
    assert_eq!(client.code(), Code::OverLimit);
    assert!(client.current_limit.is_some() && client.duration_until_reset.is_some());
    let shown = |name: &str| {
        let header = answer
            .response_headers_to_add
            .iter()
            .find(|header| header.key == name);
        String::from_utf8_lossy(&header.expect("a header").value).into_owned()
    };
    assert_eq!(shown("ratelimit-policy"), r#""client/plan";q=20;w=86400"#);
    assert!(shown("retry-after").parse::<u64>().expect("seconds") > 4000);
    // And it was not charged.
    let alone = clients[1].ask("edge", &["site=a"]);
    assert_eq!(alone.statuses[0].limit_remaining, 999);
}

#[test]
fn what_is_given_back_is_there_at_once_for_all_workers() {
    let redis = Redis::start();
    let (_comporta, clients) = two_workers(&redis);
    for turn in 0..20 {
        spend(&clients[turn % clients.len()]);
        let mut back = request("edge", &[ANA]);
        back.descriptors[0].is_negative_hits = true;
        clients[0].send(back).expect("an answer");
        assert!(
            clients[(turn + 1) % clients.len()].admits("edge", ANA),
            "turn {turn}"
        );
    }
}

#[test]
fn an_upgrade_is_admitted_at_once() {
    let redis = Redis::start();
    let (_comporta, clients) = two_workers(&redis);
    spend(&clients[0]);
    for client in &clients {
        assert!(client.admits("edge", "client=ana,plan=pro"));
        assert!(!client.admits("edge", ANA));
    }
}

#[test]
fn a_refusal_outlives_the_store_that_made_it() {
    let mut redis = Redis::start();
    let url = redis.url();
    let flags = [
        ["--store", &url],
        ["--store-budget", "60s"],
        ["--instances", "1"],
        ["--workers", "2"],
    ];
    let comporta = Comporta::serve_text(POLICY, flags.as_flattened());
    comporta.wait_for_store("edge", "client=nobody,plan=free");
    let clients: Vec<_> = (0..8).map(|_| comporta.client()).collect();
    spend(&clients[0]);
    redis.kill();
    for client in &clients {
        let ben = client.ask("edge", &["client=ben,plan=free"]);
        assert!(admitted(&ben) && is_degraded(&ben));
        let ana = client.ask("edge", &[ANA]);
        assert!(!admitted(&ana) && !is_degraded(&ana));
    }
}

fn is_degraded(answer: &RateLimitResponse) -> bool {
    let metadata = answer.dynamic_metadata.as_ref().expect("metadata");
    match metadata.fields["degraded"].kind {
        Some(Kind::BoolValue(degraded)) => degraded,
        ref other => panic!("{other:?}"),
    }
}

#[test]
fn to_ask_what_is_known_allocates_nothing() {
    const NOW: Timestamp = Timestamp::from_micros(1_790_000_010_000_000);
    let memory = Memory::new(1_000, Arc::new(Silent));
    let refusals = Arc::new(Refusals::new());
    let refused = Refused::new(memory.clone(), refusals, Arc::new(Silent));
    let limit = limit(Algorithm::TokenBucket, 1000, Unit::Day);
    let all = |hits| [check(b"spent", &limit, hits), check(b"other", &limit, hits)];
    let deadline = far();

    let look = all(Hits::LOOK);
    let (by_itself, _) = allocations(|| decide(&memory, &look, deadline, NOW));
    let (through, _) = allocations(|| decide(&refused, &look, deadline, NOW));
    assert_eq!(through, by_itself, "what is not known");
    decide(&refused, &all(Hits::Take(1000))[..1], deadline, NOW);
    let (allocated, decisions) = allocations(|| decide(&refused, &look, deadline, NOW));
    assert!(decisions.refused && decisions.checks[1].reason == Reason::NotAsked);
    assert_eq!(allocated, 0, "what is known");
}

fn decide<S: Store>(store: &S, checks: &[Check<'_>], deadline: Instant, now: Timestamp) -> Decisions {
    let group = group(checks);
    let decision = pin!(store.decide(&group, now, deadline));
    match decision.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(decisions) => decisions.expect("a decision"),
        Poll::Pending => panic!("an embedded store never waits"),
    }
}
