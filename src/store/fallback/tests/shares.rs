//! What instances that cannot see each other admit together.

use proptest::prelude::*;

use super::*;

/// A call of one of several instances, so many microseconds after the one before.
#[derive(Clone, Debug)]
struct Call {
    instance: usize,
    after: u64,
    hits: u64,
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let after = prop_oneof![Just(0), 0..100_000_u64, 0..3_000_000_u64];
    let hits = prop_oneof![Just(1), 1..=12_u64];
    let call = (0..8_usize, after, hits).prop_map(|(instance, after, hits)| Call {
        instance,
        after,
        hits,
    });
    prop::collection::vec(call, 1..120)
}

proptest! {
    /// Instances that cannot see each other admit, together and over any interval, the limit and one call each.
    #[test]
    fn together_they_admit_the_limit_and_one_call_each(
        algorithm in prop::sample::select(vec![
            Algorithm::TokenBucket,
            Algorithm::SlidingWindow,
            Algorithm::SlidingLog,
            Algorithm::FixedWindow,
        ]),
        count in 1..30_u32,
        instances in 1..=8_usize,
        calls in calls(),
    ) {
        let limit = limit(algorithm, count, Unit::Second);
        let benches: Vec<_> = (0..instances).map(|_| Bench::of(instances as u32)).collect();
        let mut now = NOW;
        let mut admitted: Vec<(Timestamp, usize, u64)> = Vec::new();
        for call in &calls {
            let instance = call.instance % instances;
            now = now.plus(Micros::new(call.after));
            let check = Check { hits: Hits::take(call.hits), ..check(b"a", &limit) };
            let decided = benches[instance].decide_at(&[check], now).expect("decisions");
            if !decided.refused {
                admitted.push((now, instance, call.hits));
            }
        }
        let whole = limit.share_of(1);
        for first in 0..admitted.len() {
            let mut sum = 0;
            let mut largest = vec![0; instances];
            for (at, instance, hits) in &admitted[first..] {
                sum += hits;
                largest[*instance] = largest[*instance].max(*hits);
                let span = at.since(admitted[first].0);
                let promised = u64::from(whole.capacity()) + whole.rate().drained_in(span).whole;
                let most = promised + largest.iter().sum::<u64>();
                prop_assert!(sum <= most, "{sum} of {most} in {span}: {admitted:?}");
            }
        }
    }
}
