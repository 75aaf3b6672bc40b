//! The question as gateways send it, read in place: nothing is copied, and no message is made of it.
//!
//! Whatever is not usual in it (a field that this does not know, one written twice where one counts, a limit that the
//! request brings along, what makes it no question at all) is left to the generated types.

use smallvec::SmallVec;

use super::{Asked, check_entries, check_head, hits};
use crate::domain::descriptor::{Descriptor, Entry, Request};

/// The tags of fields: a number and how it is written.
mod tag {
    const VARINT: u8 = 0;
    const DELIMITED: u8 = 2;

    pub(super) const DOMAIN: u8 = 1 << 3 | DELIMITED;
    pub(super) const DESCRIPTOR: u8 = 2 << 3 | DELIMITED;
    pub(super) const HITS_OF_REQUEST: u8 = 3 << 3 | VARINT;

    pub(super) const ENTRY: u8 = 1 << 3 | DELIMITED;
    pub(super) const HITS: u8 = 3 << 3 | DELIMITED;
    pub(super) const NEGATIVE_HITS: u8 = 4 << 3 | VARINT;

    pub(super) const KEY: u8 = 1 << 3 | DELIMITED;
    pub(super) const VALUE: u8 = 2 << 3 | DELIMITED;

    pub(super) const WRAPPED: u8 = 1 << 3 | VARINT;
}

/// Reads a request as [`super::request`] does; `None` where it is not a usual one.
pub fn request(message: &[u8]) -> Option<Asked<'_>> {
    let (mut domain, mut of_request) = (None, None);
    let mut written: SmallVec<[&[u8]; 8]> = SmallVec::new();
    let mut rest = message;
    while let Some(tag) = take_byte(&mut rest) {
        match tag {
            tag::DOMAIN => once(&mut domain, take_bytes(&mut rest)?)?,
            tag::DESCRIPTOR => written.push(take_bytes(&mut rest)?),
            tag::HITS_OF_REQUEST => once(&mut of_request, take_varint(&mut rest)?)?,
            _ => return None,
        }
    }
    let domain = domain.unwrap_or_default();
    check_head(domain, written.len()).ok()?;
    let of_request = u32::try_from(of_request.unwrap_or_default()).ok()?;
    let mut descriptors = Vec::with_capacity(written.len());
    for written in written {
        descriptors.push(descriptor(written, of_request)?);
    }
    Some(Asked {
        request: Request { domain, descriptors },
        unreadable_overrides: 0,
    })
}

fn descriptor(mut rest: &[u8], hits_of_request: u32) -> Option<Descriptor<'_>> {
    let (mut own_hits, mut negative) = (None, None);
    let mut entries = SmallVec::new();
    while let Some(tag) = take_byte(&mut rest) {
        match tag {
            tag::ENTRY => entries.push(entry(take_bytes(&mut rest)?)?),
            tag::HITS => once(&mut own_hits, wrapped(take_bytes(&mut rest)?)?)?,
            tag::NEGATIVE_HITS => once(&mut negative, take_varint(&mut rest)? != 0)?,
            _ => return None,
        }
    }
    check_entries(0, entries.len()).ok()?;
    Some(Descriptor {
        entries,
        hits: hits(own_hits, negative.unwrap_or_default(), hits_of_request),
        limit: None,
    })
}

fn entry(mut rest: &[u8]) -> Option<Entry<'_>> {
    let (mut key, mut value) = (None, None);
    while let Some(tag) = take_byte(&mut rest) {
        match tag {
            tag::KEY => once(&mut key, take_bytes(&mut rest)?)?,
            tag::VALUE => once(&mut value, take_bytes(&mut rest)?)?,
            _ => return None,
        }
    }
    Some(Entry {
        key: key.unwrap_or_default(),
        value: value.unwrap_or_default(),
    })
}

/// A number in a message of its own, so that it can be absent. Without a field it is zero.
fn wrapped(mut rest: &[u8]) -> Option<u64> {
    match take_byte(&mut rest) {
        None => Some(0),
        Some(tag::WRAPPED) => take_varint(&mut rest).filter(|_| rest.is_empty()),
        Some(_) => None,
    }
}

/// Keeps the one value of a field.
fn once<T>(kept: &mut Option<T>, value: T) -> Option<()> {
    kept.replace(value).is_none().then_some(())
}

fn take_byte(rest: &mut &[u8]) -> Option<u8> {
    let (first, behind) = rest.split_first()?;
    *rest = behind;
    Some(*first)
}

fn take_bytes<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(take_varint(rest)?).ok()?;
    let (bytes, behind) = rest.split_at_checked(length)?;
    *rest = behind;
    Some(bytes)
}

fn take_varint(rest: &mut &[u8]) -> Option<u64> {
    match take_byte(rest)? {
        small @ ..=0x7f => Some(small.into()),
        low => take_more(u64::from(low & 0x7f), rest),
    }
}

/// The rest of a number that did not fit in one byte.
fn take_more(low: u64, rest: &mut &[u8]) -> Option<u64> {
    let mut number = low;
    for place in 1..9 {
        let byte = take_byte(rest)?;
        number |= u64::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    // One that may not fit.
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::quantity::Hits;

    /// A field of bytes, a string or a message.
    fn field(tag: u8, value: &[u8]) -> Vec<u8> {
        let length = u8::try_from(value.len()).expect("short");
        [&[tag, length], value].concat()
    }

    fn entry_of(key: &str, value: &str) -> Vec<u8> {
        let pair = [
            field(tag::KEY, key.as_bytes()),
            field(tag::VALUE, value.as_bytes()),
        ]
        .concat();
        field(tag::ENTRY, &pair)
    }

    /// A question about one descriptor with what else it holds, and what else the question does.
    fn question(in_descriptor: &[u8], in_request: &[u8]) -> Vec<u8> {
        let descriptor = [&entry_of("client", "ana")[..], in_descriptor].concat();
        [
            &field(tag::DOMAIN, b"edge")[..],
            &field(tag::DESCRIPTOR, &descriptor),
            in_request,
        ]
        .concat()
    }

    #[test]
    fn hits_of_every_kind_are_usual() {
        let check = |in_descriptor: &[u8], in_request: &[u8], expected| {
            let question = question(in_descriptor, in_request);
            let asked = request(&question).expect("a usual one");
            let descriptor = &asked.request.descriptors[0];
            assert_eq!(asked.request.domain, b"edge");
            assert_eq!(descriptor.entries[..], [Entry::new("client", "ana")]);
            assert_eq!(descriptor.hits, expected, "{in_descriptor:?} {in_request:?}");
        };
        let own = |number: &[u8]| field(tag::HITS, &[&[tag::WRAPPED], number].concat());
        check(&[], &[], Hits::Take(1));
        check(&[], &[tag::HITS_OF_REQUEST, 0], Hits::Take(1));
        check(&[], &[tag::HITS_OF_REQUEST, 5], Hits::Take(5));
        check(&[], &[tag::HITS_OF_REQUEST, 0x80, 1], Hits::Take(128));
        check(&own(&[3]), &[tag::HITS_OF_REQUEST, 5], Hits::Take(3));
        check(&own(&[0]), &[], Hits::LOOK);
        check(&field(tag::HITS, &[]), &[], Hits::LOOK);
        check(
            &[&own(&[7])[..], &[tag::NEGATIVE_HITS, 1]].concat(),
            &[],
            Hits::GiveBack(7),
        );
        check(&[tag::NEGATIVE_HITS, 0], &[], Hits::Take(1));
    }

    #[test]
    fn all_else_is_left_to_the_generated_types() {
        let limit = field(2 << 3 | 2, &[8, 1, 16, 1]);
        let later = field(15 << 3 | 2, b"later");
        let twice = |tag: u8| [tag, 1, tag, 1];
        for (in_descriptor, in_request) in [
            (&limit[..], &[][..]),
            (&later, &[]),
            (&[], &later),
            (&twice(tag::NEGATIVE_HITS), &[]),
            (&[], &twice(tag::HITS_OF_REQUEST)),
            (&[tag::HITS, 0, tag::HITS, 0], &[]),
            (&[], &field(tag::DOMAIN, b"b")),
            (&[tag::ENTRY, 1, tag::KEY], &[]),
            (&[tag::ENTRY, 4, tag::KEY, 0, tag::KEY, 0], &[]),
            (&[tag::HITS, 4, tag::WRAPPED, 1, tag::WRAPPED, 1], &[]),
            // The same tag in two bytes, a number that may not fit, one that does not, lengths past the end.
            (&[], &[tag::HITS_OF_REQUEST | 0x80, 0, 1]),
            (
                &[],
                &[
                    tag::HITS_OF_REQUEST,
                    0x81,
                    0x80,
                    0x80,
                    0x80,
                    0x80,
                    0x80,
                    0x80,
                    0x80,
                    0x80,
                    0,
                ],
            ),
            (&[], &[tag::HITS_OF_REQUEST, 0xff, 0xff, 0xff, 0xff, 0x1f]),
            (&[], &[tag::HITS_OF_REQUEST]),
            (&[], &[tag::DESCRIPTOR, 9, 0]),
        ] {
            let question = question(in_descriptor, in_request);
            assert_eq!(request(&question), None, "{in_descriptor:?} {in_request:?}");
        }
        assert_eq!(request(b""), None);
        assert_eq!(request(&field(tag::DOMAIN, b"edge")), None);
        assert_eq!(request(&field(tag::DESCRIPTOR, &entry_of("client", "ana"))), None);
    }
}
