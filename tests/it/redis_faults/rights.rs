//! Passwords and rights that are wrong, and then right.

use std::time::Duration;

use super::load::Load;
use super::{Fault, loaded, serve};
use crate::harness::redis::Redis;

const USER: &[&str] = &["ACL", "SETUSER", "limiter", "on", "~*", "+@all"];

#[test]
fn a_password_that_is_wrong_and_then_right() {
    let redis = Redis::start();
    let () = redis.ask(&[USER, &[">old"]].concat());
    let comporta = serve(&redis.url_of("limiter", "new"));
    let load = Load::start(&comporta);
    load.go_on_for(Duration::from_secs(2));
    let () = redis.ask(&[USER, &[">new"]].concat());
    let record = load.until_recovered();
    Fault::new("a wrong password").check(&comporta, &record);
}

#[test]
fn a_right_that_is_taken_and_given_back() {
    let redis = Redis::start();
    let () = redis.ask(&[USER, &[">password"]].concat());
    let (comporta, load) = loaded(&redis.url_of("limiter", "password"));
    let () = redis.ask(&[USER, &["-evalsha"]].concat());
    load.go_on_for(Duration::from_secs(2));
    let () = redis.ask(&[USER, &["+evalsha"]].concat());
    let record = load.until_recovered();
    Fault::new("no right to EVALSHA").check(&comporta, &record);
}
