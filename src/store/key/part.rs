//! One part of a key: its length in front, of bounded length, and never the end of a tag.

use std::io::Write as _;

use ring::digest::{self, SHA256};
use ring::hmac;

/// Parts longer than this stand as their SHA-256: callers choose values, and must not rule the size of keys.
const LONGEST: usize = 64;

/// Appends `bytes`: `<length>:<bytes>`, or `64#<hash>` for many.
pub(super) fn write(into: &mut Vec<u8>, bytes: &[u8]) {
    if bytes.len() > LONGEST {
        return hashed(into, b'#', digest::digest(&SHA256, bytes).as_ref());
    }
    let has_specials = bytes.iter().copied().any(is_special);
    if !has_specials {
        number(into, bytes.len());
        into.push(b':');
        return into.extend_from_slice(bytes);
    }
    let specials = bytes.iter().filter(|byte| is_special(**byte)).count();
    number(into, bytes.len() + 2 * specials);
    into.push(b':');
    escape(into, bytes);
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

/// Appends `number`, below 1000, in decimal: on the path of every call, where `write!` is slow.
pub(super) fn number(into: &mut Vec<u8>, mut number: usize) {
    let mut digits = [0; 3];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 || at == 0 {
            return into.extend_from_slice(&digits[at..]);
        }
    }
}

/// The part that `parts` begin with, its length included.
pub(super) fn first(parts: &[u8]) -> Option<&[u8]> {
    let digits = parts.iter().position(|byte| !byte.is_ascii_digit())?;
    let length: usize = std::str::from_utf8(&parts[..digits]).ok()?.parse().ok()?;
    parts.get(..digits + 1 + length)
}

fn is_special(byte: u8) -> bool {
    SPECIAL[byte as usize]
}

/// Looked up, for every byte of every key is asked about.
static SPECIAL: [bool; 256] = {
    let mut special = [false; 256];
    special[b'{' as usize] = true;
    special[b'}' as usize] = true;
    special[b'%' as usize] = true;
    special
};

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
