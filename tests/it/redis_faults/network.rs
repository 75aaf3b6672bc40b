//! The network between an instance and its Redis.

use std::time::Duration;

use super::load::degraded;
use super::{DOMAIN, Fault, loaded, serve, used};
use crate::harness::process::poll;
use crate::harness::proxy::{Mode, Proxy};
use crate::harness::redis::Redis;

/// Two seconds of `mode`.
fn endures(name: &'static str, mode: Mode) {
    let redis = Redis::start();
    let proxy = Proxy::start(&redis.address());
    let (comporta, load) = loaded(&proxy.url());
    proxy.set(mode);
    load.go_on_for(Duration::from_secs(2));
    proxy.set(Mode::Pass);
    let record = load.until_recovered();
    Fault::new(name).check(&comporta, &record);
}

#[test]
fn slower_than_a_decision_may_take() {
    endures("answers 50 ms later", Mode::Delay(Duration::from_millis(50)));
}

#[test]
fn loses_replies() {
    endures("replies lost", Mode::DropReplies);
}

#[test]
fn loses_everything() {
    endures("a black hole", Mode::BlackHole);
}

#[test]
fn resets_connections() {
    endures("connections reset", Mode::Cut);
}

#[test]
fn half_closes_connections() {
    endures("connections half closed", Mode::HalfClose);
}

#[test]
fn forgets_connections() {
    let redis = Redis::start();
    let proxy = Proxy::start(&redis.address());
    let (comporta, load) = loaded(&proxy.url());
    proxy.abandon();
    // It knows nothing of those there are, and makes new ones: nothing but their silence tells.
    let record = load.until_recovered();
    Fault::new("connections forgotten").check(&comporta, &record);
}

#[test]
fn a_call_whose_reply_is_lost_is_charged_once() {
    let redis = Redis::start();
    let proxy = Proxy::start(&redis.address());
    let comporta = serve(&proxy.url());
    comporta.wait_for_store(DOMAIN, "steady=nobody");
    proxy.set(Mode::DropReplies);
    assert!(degraded(&comporta.client().ask(DOMAIN, &["steady=0"])));
    poll("the charge", || (!redis.keys().is_empty()).then_some(()));
    proxy.set(Mode::Pass);
    comporta.wait_for_store(DOMAIN, "steady=nobody");
    assert_eq!(used(&comporta, 0), 1);
}
