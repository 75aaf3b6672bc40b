//! One part of a key: its length in front, of bounded length, and never the end of a tag.

use std::io::Write as _;

use ring::digest::{self, SHA256};
use ring::hmac;

/// Parts longer than this stand as their SHA-256: callers choose values, and must not rule the size of keys.
const LONGEST: usize = 64;

/// Appends `bytes`: `<length>:<bytes>`, or `64#<hash>` for many. What must not stand in a tag is escaped.
pub(super) fn write(into: &mut Vec<u8>, bytes: &[u8]) {
    let specials = bytes.iter().filter(|byte| is_special(**byte)).count();
    if specials == 0 || bytes.len() > LONGEST {
        return write_plain(into, bytes);
    }
    number(into, bytes.len() + 2 * specials);
    into.push(b':');
    escape(into, bytes);
}

/// As [`write`], of bytes that need no escaping. Written out, for it takes the most of what a key costs.
pub(super) fn write_plain(into: &mut Vec<u8>, bytes: &[u8]) {
    if bytes.len() > LONGEST {
        return hashed(into, b'#', digest::digest(&SHA256, bytes).as_ref());
    }
    let length = bytes.len() as u8;
    let (tens, ones) = (b'0' + length / 10, b'0' + length % 10);
    if length < 10 {
        into.extend_from_slice(&[ones, b':']);
    } else {
        into.extend_from_slice(&[tens, ones, b':']);
    }
    into.extend_from_slice(bytes);
}

/// Whether there is anything in `parts`, written plain, that should have been escaped. The brace that closes the tag stands
/// among them.
pub(super) fn need_escape(parts: &[u8]) -> bool {
    let [open, close, escape] = SPECIAL;
    memchr::memchr3_iter(open, close, escape, parts).nth(1).is_some()
}

/// Appends what stands for `bytes` where nobody may read them: `64$<hash>`, which only who knows `secret` can make.
pub(super) fn write_secret(into: &mut Vec<u8>, bytes: &[u8], secret: &hmac::Key) {
    hashed(into, b'$', hmac::sign(secret, bytes).as_ref());
}

/// The mark tells how it was hashed, so that nobody can send a hash as a value and mean what it was made of.
fn hashed(into: &mut Vec<u8>, mark: u8, hash: &[u8]) {
    number(into, 2 * hash.len());
    into.push(mark);
    for byte in hash {
        into.extend([byte >> 4, byte & 15].map(|digit| b"0123456789abcdef"[usize::from(digit)]));
    }
}

/// Appends `number` in decimal.
pub(super) fn number(into: &mut Vec<u8>, number: impl itoa::Integer) {
    into.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// The part that `parts` begin with, its length included.
pub(super) fn first(parts: &[u8]) -> Option<&[u8]> {
    let digits = parts.iter().position(|byte| !byte.is_ascii_digit())?;
    let length: usize = std::str::from_utf8(&parts[..digits]).ok()?.parse().ok()?;
    parts.get(..digits + 1 + length)
}

/// What would be taken for the edge of a tag, and what escapes it.
const SPECIAL: [u8; 3] = [b'{', b'}', b'%'];

fn is_special(byte: u8) -> bool {
    SPECIAL.contains(&byte)
}

/// Appends `bytes` without a brace in them.
pub(super) fn escape(into: &mut Vec<u8>, bytes: &[u8]) {
    for byte in bytes {
        if is_special(*byte) {
            let _ = write!(into, "%{byte:02X}");
        } else {
            into.push(*byte);
        }
    }
}
