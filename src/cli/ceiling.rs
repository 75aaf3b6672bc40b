//! The most that one instance lets through while the shared store cannot decide.

use std::sync::Arc;

use crate::domain::limit::{Algorithm, Limit, LimitSpec};
use crate::domain::time::Micros;
use crate::policy::rate;

/// The bucket that `5000/second` is: so many at once, and as many again in each period.
pub(super) fn ceiling(text: &str) -> Result<Limit, String> {
    let (count, period) = rate::parse(text)?;
    if count == 0 {
        return Err(String::from(
            "0 would let nothing through: that is --on-store-failure deny",
        ));
    }
    let spec = LimitSpec {
        name: Arc::from("fallback-ceiling"),
        named: true,
        count,
        period,
        algorithm: Algorithm::TokenBucket,
        burst: None,
        delay: Micros::ZERO,
        calendar: false,
    };
    Limit::new(spec).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::limit::{Period, Unit};

    #[test]
    fn a_rate_is_a_bucket_that_holds_its_count() {
        let limit = ceiling("300/15m").expect("a ceiling");
        let period = Period {
            unit: Unit::Minute,
            multiplier: 15,
        };
        assert_eq!(
            (limit.capacity(), limit.count(), limit.period()),
            (300, 300, period)
        );
    }

    #[test]
    fn what_is_no_rate_says_what_to_write() {
        for (text, mistake) in [
            (
                "5000",
                "must be <count>/<period>, found `5000`: write, say, `100/minute` or `100/15m`",
            ),
            ("-1/second", "must not be negative, found `-1`"),
            (
                "0/second",
                "0 would let nothing through: that is --on-store-failure deny",
            ),
        ] {
            assert_eq!(ceiling(text), Err(mistake.to_owned()));
        }
    }
}
