//! Exact arithmetic that Rust's integers and Lua's doubles can both do: whole numbers only, nothing rounded unless a
//! name says up or down.

use crate::domain::time::{Micros, Timestamp};

/// How far a clock may be behind what was stored before it counts as one that was set back: threads and pipelines
/// that overtake each other stay well below.
pub const OVERTAKING: Micros = Micros::SECOND;

/// Quotient and remainder of a·b ÷ c. `c` is not zero and the quotient fits in 64 bits.
pub const fn mul_div(a: u64, b: u64, c: u64) -> (u64, u64) {
    if let Some(product) = a.checked_mul(b) {
        return (product / c, product % c);
    }
    let product = a as u128 * b as u128;
    ((product / c as u128) as u64, (product % c as u128) as u64)
}

/// The moment at which a counter last touched at `stored` is read by a clock that shows `now`.
///
/// A clock that is a little behind is one that was overtaken: storing its earlier time would let the same span drain
/// twice. One that is far behind was set: going on from the later time would freeze the counter until then.
pub fn effective_now(stored: Timestamp, now: Timestamp) -> Timestamp {
    if was_set_back(stored, now) {
        now
    } else {
        stored.max(now)
    }
}

/// Whether a clock that shows `now` was set back since it showed `stored`, rather than overtaken.
pub fn was_set_back(stored: Timestamp, now: Timestamp) -> bool {
    stored.since(now) > OVERTAKING
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mul_div_is_exact_where_the_product_overflows() {
        assert_eq!(mul_div(7, 3, 4), (5, 1));
        assert_eq!(
            mul_div(1 << 40, 315_360_000_000_000, 315_359_999_999_999),
            ((1 << 40), 1 << 40)
        );
        assert_eq!(mul_div(u64::MAX, u64::MAX, u64::MAX), (u64::MAX, 0));
    }

    #[test]
    fn a_clock_a_little_behind_waits_and_one_far_behind_is_believed() {
        let at = Timestamp::from_micros;
        assert_eq!(effective_now(at(5_000_000), at(6_000_000)), at(6_000_000));
        assert_eq!(effective_now(at(5_000_000), at(5_000_000)), at(5_000_000));
        assert_eq!(effective_now(at(5_000_000), at(4_000_000)), at(5_000_000));
        assert_eq!(effective_now(at(5_000_000), at(3_999_999)), at(3_999_999));
    }
}
