//! The one list of what is timed and counted.

mod call;
mod codec;
mod decide;
mod matching;
mod memory;
mod question;
mod refused;

use comporta::domain::limit::Algorithm;
use comporta::service::headers::HeaderStyle;

/// Makes one call. Whatever it needs was made before.
pub type Call = Box<dyn FnMut() + Send>;

/// A call by one thread, or one for each of several threads that make them at the same time.
pub enum Calls {
    Alone(fn() -> Call),
    Together(fn() -> Vec<Call>),
}

/// A call and its name.
pub struct Case {
    pub name: &'static str,
    pub calls: Calls,
}

pub const CASES: &[Case] = &[
    alone("match/3 entries", matching::three_entries),
    alone("decide/token bucket", || decide::take(Algorithm::TokenBucket)),
    alone("decide/leaky bucket", || decide::take(Algorithm::LeakyBucket)),
    alone("decide/sliding window", || decide::take(Algorithm::SlidingWindow)),
    alone("decide/fixed window", || decide::take(Algorithm::FixedWindow)),
    alone("decide/sliding log", || decide::take(Algorithm::SlidingLog)),
    alone("memory/1 key", || memory::take(1)),
    alone("memory/10000 keys", || memory::take(10_000)),
    together("memory/1 key, 2 threads", || memory::take_together(1, 2)),
    together("memory/10000 keys, 2 threads", || {
        memory::take_together(10_000, 2)
    }),
    alone("refused/1 key", refused::ask),
    alone("codec/request", codec::request),
    alone("codec/arguments for Redis", codec::redis_arguments),
    alone("codec/reply of Redis", codec::redis_reply),
    alone("codec/answer, headers off", || call::answer(HeaderStyle::Off)),
    alone("codec/answer, headers on", || call::answer(HeaderStyle::Ietf)),
    alone("call/headers off", call::without_headers),
    alone("call/headers on", call::with_headers),
    alone("call/headers on, refused", call::refused),
    alone("call/headers on, 8 descriptors", call::of_eight_descriptors),
];

const fn alone(name: &'static str, prepare: fn() -> Call) -> Case {
    Case {
        name,
        calls: Calls::Alone(prepare),
    }
}

const fn together(name: &'static str, prepare: fn() -> Vec<Call>) -> Case {
    Case {
        name,
        calls: Calls::Together(prepare),
    }
}
