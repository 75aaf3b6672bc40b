//! What is asked: written once, with room for the caller's number.

use bytes::Bytes;

use crate::service::asker;

/// Where a caller's number is to stand, as wide as the number is written.
const ROOM: &str = "##########";

/// A call about one or several callers.
pub(super) struct Question {
    bytes: Vec<u8>,
    /// Where the numbers begin.
    places: Vec<usize>,
}

impl Question {
    /// About as many callers as `callers` says, each in a descriptor of these entries; the value of the last is the caller.
    pub(super) fn new(domain: &str, before: &[(&str, &str)], key: &str, callers: usize) -> Self {
        let descriptor: Vec<_> = before.iter().copied().chain([(key, ROOM)]).collect();
        let bytes = asker::question(domain, &vec![descriptor; callers]);
        let room = ROOM.as_bytes();
        let places = (0..bytes.len())
            .filter(|place| bytes[*place..].starts_with(room))
            .collect();
        Self { bytes, places }
    }

    /// The call with the number `call`. Calls of different numbers have no caller in common.
    pub(super) fn write(&self, call: u64) -> Bytes {
        let mut bytes = self.bytes.clone();
        let first = call * self.places.len() as u64;
        for (place, caller) in self.places.iter().zip(first..) {
            write_number(&mut bytes[*place..place + ROOM.len()], caller);
        }
        bytes.into()
    }
}

/// Writes a number with leading zeros.
fn write_number(room: &mut [u8], mut number: u64) {
    for digit in room.iter_mut().rev() {
        *digit = b'0' + u8::try_from(number % 10).unwrap_or_default();
        number /= 10;
    }
}

/// A caller's number as it is asked about.
pub(super) fn caller(number: u64) -> String {
    let mut digits = [b'0'; ROOM.len()];
    write_number(&mut digits, number);
    digits.iter().map(|digit| char::from(*digit)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_stand_where_there_is_room_for_them() {
        let question = Question::new("edge", &[("plan", "gold")], "client", 2);
        let expected = |callers: [&str; 2]| {
            let descriptors = callers.map(|caller| vec![("plan", "gold"), ("client", caller)]);
            Bytes::from(asker::question("edge", &descriptors))
        };
        assert_eq!(question.write(0), expected(["0000000000", "0000000001"]));
        assert_eq!(question.write(617), expected(["0000001234", "0000001235"]));
        assert_eq!(caller(1235), "0000001235");
    }
}
