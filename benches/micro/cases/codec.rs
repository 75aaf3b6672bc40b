//! Reading what came, and writing what goes.

use std::hint::black_box;

use bytes::Bytes;
use comporta::decide::bucket::Bucket;
use comporta::decide::group as deciding;
use comporta::decide::state::State;
use comporta::domain::limit::{Algorithm, Level};
use comporta::service::decode::usual;
use comporta::store::redis::codec::{Reply, arguments};
use redis::Value;

use super::{Call, question};
use crate::support::{START, group, key, limit, take};

/// Reads a request of one descriptor.
pub fn request() -> Call {
    let question: Bytes = question::about(1);
    Box::new(move || {
        let asked = usual::request(black_box(&question));
        black_box(asked).expect("a usual question");
    })
}

/// Writes what the script is asked about one check.
pub fn redis_arguments() -> Call {
    let (limit, key) = (limit(Algorithm::TokenBucket), key(0));
    Box::new(move || {
        let checks = [take(&key, &limit)];
        for argument in arguments(black_box(&group(&checks))) {
            black_box(argument);
        }
    })
}

/// Decides one check by what the script answers, from where that is taken apart.
pub fn redis_reply() -> Call {
    let (limit, key) = (limit(Algorithm::TokenBucket), key(0));
    let state = State::Bucket(Bucket {
        at: START,
        level: Level { whole: 41, part: 7 },
        per: limit.rate().micros,
    });
    let now = i64::try_from(START.as_micros()).expect("a moment of this century");
    let reply = Value::Array(vec![
        Value::Int(now),
        Value::BulkString(state.encode().as_bytes().to_vec()),
    ]);
    Box::new(move || {
        let checks = [take(&key, &limit)];
        let group = group(&checks);
        let reply = black_box(&reply).clone();
        let mut reply = Reply::read(reply, checks.len()).expect("a reply");
        let now = reply.now;
        black_box(deciding::decide(&group, now, &mut reply));
    })
}
