//! Reads a question from the wire into our own words, and says what a zero means.

pub mod usual;

use crate::domain::descriptor::{Descriptor, Entry, Override, Request};
use crate::domain::limit::{Period, Unit};
use crate::domain::quantity::Hits;
use crate::proto::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::RateLimitOverride;
use crate::proto::envoy::service::ratelimit::v3::RateLimitRequest;

/// The most descriptors of a request. Only a gateway's configuration decides how many there are.
pub const MOST_DESCRIPTORS: usize = 128;

/// The most entries of a descriptor.
pub const MOST_ENTRIES: usize = 32;

/// Why a request is no question that can be answered. All of it is the gateway's configuration, never a caller's doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// Without a domain there is no telling whose rules are meant.
    #[error("rate limit domain must not be empty")]
    NoDomain,
    /// Nothing is asked. These words and those above are the reference's: scripts may look for them.
    #[error("rate limit descriptor list must not be empty")]
    NoDescriptors,
    /// More than is looked at.
    #[error("{0} descriptors are too many: at most {MOST_DESCRIPTORS} are allowed in one request")]
    TooManyDescriptors(usize),
    /// More than is looked at.
    #[error("descriptor {place} has {entries} entries: at most {MOST_ENTRIES} are allowed")]
    TooManyEntries {
        /// Which descriptor, counted from 1.
        place: usize,
        /// How many it has.
        entries: usize,
    },
    /// Every caller would share one counter, which no gateway can mean.
    #[error("descriptor {0} brings a limit but no entries to count by")]
    NothingToCount(usize),
}

/// What came over the wire.
#[derive(Debug, PartialEq, Eq)]
pub struct Asked<'a> {
    /// The question.
    pub request: Request<'a>,
    /// How many descriptors bring a limit whose unit says nothing to us.
    pub unreadable_overrides: u32,
}

/// Reads a request.
///
/// # Errors
/// When it is no question.
pub fn request(wire: &RateLimitRequest) -> Result<Asked<'_>, Invalid> {
    check_head(&wire.domain, wire.descriptors.len())?;
    let mut unreadable_overrides = 0;
    let mut descriptors = Vec::with_capacity(wire.descriptors.len());
    for (place, descriptor) in wire.descriptors.iter().enumerate() {
        check_entries(place, descriptor.entries.len())?;
        if descriptor.entries.is_empty() && descriptor.limit.is_some() {
            return Err(Invalid::NothingToCount(place + 1));
        }
        let limit = descriptor.limit.as_ref().map(read_override);
        unreadable_overrides += u32::from(limit == Some(None));
        descriptors.push(Descriptor {
            entries: descriptor
                .entries
                .iter()
                .map(|entry| Entry::new(&entry.key, &entry.value))
                .collect(),
            hits: hits(
                descriptor.hits_addend,
                descriptor.is_negative_hits,
                wire.hits_addend,
            ),
            limit: limit.flatten(),
        });
    }
    Ok(Asked {
        request: Request {
            domain: &wire.domain,
            descriptors,
        },
        unreadable_overrides,
    })
}

fn check_head(domain: &[u8], descriptors: usize) -> Result<(), Invalid> {
    match descriptors {
        _ if domain.is_empty() => Err(Invalid::NoDomain),
        0 => Err(Invalid::NoDescriptors),
        many if many > MOST_DESCRIPTORS => Err(Invalid::TooManyDescriptors(many)),
        _ => Ok(()),
    }
}

fn check_entries(place: usize, entries: usize) -> Result<(), Invalid> {
    if entries > MOST_ENTRIES {
        return Err(Invalid::TooManyEntries {
            place: place + 1,
            entries,
        });
    }
    Ok(())
}

/// The limit that a request brings along; none when its unit is unknown or its period longer than any may be. An error
/// would let the request pass without any limit, so the policy's then hold.
fn read_override(wire: &RateLimitOverride) -> Option<Override> {
    let unit = match wire.unit {
        1 => Unit::Second,
        2 => Unit::Minute,
        3 => Unit::Hour,
        4 => Unit::Day,
        5 => Unit::Month,
        6 => Unit::Year,
        // Not in the enum of overrides, but in that of answers, and understood elsewhere.
        7 => Unit::Week,
        _ => return None,
    };
    // A zero multiplier means one, as in an answer.
    let period = Period::new(unit, wire.unit_multiplier.unwrap_or(1).max(1))?;
    Some(Override {
        count: wire.requests_per_unit,
        period,
    })
}

/// A descriptor's own hits win, and a zero that is present only looks. The request's zero cannot be told from unset,
/// and means one.
fn hits(of_descriptor: Option<u64>, negative: bool, of_request: u32) -> Hits {
    let hits = of_descriptor.unwrap_or_else(|| u64::from(of_request.max(1)));
    if negative {
        Hits::give_back(hits)
    } else {
        Hits::take(hits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::limit::Period;
    use crate::proto::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
    use crate::proto::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor;
    use bytes::Bytes;
    use prost::Message;
    use smallvec::smallvec;

    /// A field of bytes, a string or a message.
    fn field(number: u8, value: &[u8]) -> Vec<u8> {
        let mut bytes = vec![number << 3 | 2, u8::try_from(value.len()).expect("short")];
        bytes.extend_from_slice(value);
        bytes
    }

    fn entry(key: &[u8], value: &[u8]) -> Vec<u8> {
        [field(1, key), field(2, value)].concat()
    }

    fn descriptor(entries: usize) -> RateLimitDescriptor {
        let entry = rate_limit_descriptor::Entry {
            key: Bytes::from_static(b"k"),
            value: Bytes::new(),
        };
        RateLimitDescriptor {
            entries: vec![entry; entries],
            ..RateLimitDescriptor::default()
        }
    }

    fn asking(descriptors: Vec<RateLimitDescriptor>) -> RateLimitRequest {
        RateLimitRequest {
            domain: Bytes::from_static(b"edge"),
            descriptors,
            hits_addend: 0,
        }
    }

    #[test]
    fn reads_odd_values_and_skips_unknown_fields() {
        let first = [
            field(1, &entry(b"client", b"\xff\xfe\0")),
            field(1, &entry(b"empty", b"")),
        ]
        .concat();
        // Field 15 of the descriptor and field 9 of the request are not ours.
        let first = [first, field(15, b"later")].concat();
        let bytes = [
            field(1, b"edge\xff"),
            field(2, &first),
            field(9, b"later"),
            vec![3 << 3, 7],
        ]
        .concat();
        let wire = RateLimitRequest::decode(bytes.as_slice()).expect("decodes");
        let asked = request(&wire).expect("a question");
        let entries = smallvec![Entry::new("client", b"\xff\xfe\0"), Entry::new("empty", "")];
        assert_eq!(
            asked,
            Asked {
                request: Request {
                    domain: b"edge\xff",
                    descriptors: vec![Descriptor {
                        entries,
                        hits: Hits::Take(7),
                        limit: None
                    }],
                },
                unreadable_overrides: 0,
            }
        );
    }

    #[test]
    fn says_what_each_zero_means() {
        assert_eq!(hits(None, false, 0), Hits::Take(1));
        assert_eq!(hits(None, false, 5), Hits::Take(5));
        assert_eq!(hits(Some(3), false, 5), Hits::Take(3));
        assert_eq!(hits(Some(0), false, 5), Hits::LOOK);
        assert_eq!(hits(Some(0), true, 5), Hits::LOOK);
        assert_eq!(hits(Some(17), true, 0), Hits::GiveBack(17));
        assert_eq!(hits(None, true, 0), Hits::GiveBack(1));
        assert_eq!(hits(Some(u64::MAX), false, 0), Hits::Take(Hits::MOST));
    }

    #[test]
    fn what_is_no_question_is_refused_with_the_bound() {
        let check = |wire: RateLimitRequest, expected: &str| {
            assert_eq!(request(&wire).expect_err("no question").to_string(), expected);
            assert_eq!(usual::request(&wire.encode_to_vec()), None);
        };
        check(RateLimitRequest::default(), "rate limit domain must not be empty");
        check(asking(vec![]), "rate limit descriptor list must not be empty");
        check(
            asking(vec![descriptor(1); 129]),
            "129 descriptors are too many: at most 128 are allowed in one request",
        );
        check(
            asking(vec![descriptor(1), descriptor(33)]),
            "descriptor 2 has 33 entries: at most 32 are allowed",
        );
        let mut empty = descriptor(0);
        empty.limit = Some(RateLimitOverride::default());
        check(
            asking(vec![descriptor(0), empty]),
            "descriptor 2 brings a limit but no entries to count by",
        );
        assert!(request(&asking(vec![descriptor(32); 128])).is_ok());
    }

    #[test]
    fn a_limit_of_the_requests_own_is_read_or_said_to_be_unreadable() {
        let read = |requests_per_unit, unit, unit_multiplier| {
            let mut own = descriptor(1);
            own.limit = Some(RateLimitOverride {
                requests_per_unit,
                unit,
                unit_multiplier,
            });
            let wire = asking(vec![own, descriptor(1)]);
            let asked = request(&wire).expect("a question");
            assert_eq!(asked.request.descriptors[1].limit, None);
            let limit = asked.request.descriptors[0].limit;
            assert_eq!(asked.unreadable_overrides, u32::from(limit.is_none()));
            limit.map(|limit| (limit.count, limit.period))
        };
        for (number, unit) in [
            (1, Unit::Second),
            (4, Unit::Day),
            (5, Unit::Month),
            (6, Unit::Year),
            (7, Unit::Week),
        ] {
            assert_eq!(read(10, number, None), Some((10, Period::one(unit))));
        }
        for unknown in [0, 8, -1, i32::MAX, i32::MIN] {
            assert_eq!(read(10, unknown, None), None);
        }
        assert_eq!(
            read(0, 2, None),
            Some((0, Period::one(Unit::Minute))),
            "refuses everything"
        );
        assert_eq!(
            read(u32::MAX, 2, Some(0)),
            Some((u32::MAX, Period::one(Unit::Minute))),
            "a gateway's -1"
        );
        assert_eq!(
            read(1, 2, Some(15)),
            Some((
                1,
                Period {
                    unit: Unit::Minute,
                    multiplier: 15
                }
            ))
        );
        assert_eq!(
            read(1, 6, Some(10)),
            Some((
                1,
                Period {
                    unit: Unit::Year,
                    multiplier: 10
                }
            ))
        );
        assert_eq!(read(1, 6, Some(11)), None, "longer than ten years");
        assert_eq!(read(1, 6, Some(u32::MAX)), None);
    }
}
