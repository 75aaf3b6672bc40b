//! Making one caller of the many ways its address is written.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::str::FromStr;

use ipnet::IpNet;

/// What every value that is not an address counts as. No address is written like this.
const NOT_AN_ADDRESS: &[u8] = b"not-an-address";

/// How the values of one key on one level are read before they are matched and counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Normalizer {
    /// 0 to 32.
    pub ipv4_prefix: u8,
    /// 0 to 128.
    pub ipv6_prefix: u8,
}

impl Normalizer {
    /// Each IPv4 address by itself.
    pub(super) const IPV4_PREFIX: u8 = 32;
    /// What one subscriber usually holds: 2^64 IPv6 addresses.
    pub(super) const IPV6_PREFIX: u8 = 64;

    /// The value that `value` counts as: its network, an IPv6 address that stands for an IPv4 one as the latter, and
    /// one and the same for all that are not addresses.
    pub(super) fn apply(self, value: &[u8]) -> Cow<'_, [u8]> {
        let Some(text) = std::str::from_utf8(value).ok() else {
            return Cow::Borrowed(NOT_AN_ADDRESS);
        };
        if self.ipv4_prefix == 32 && Ipv4Addr::from_str(text).is_ok() {
            // Only the shortest spelling parses, so this is how it is written already.
            return Cow::Borrowed(value);
        }
        match address(text.trim()) {
            Some(network) => Cow::Owned(self.mask(network).into_bytes()),
            None => Cow::Borrowed(NOT_AN_ADDRESS),
        }
    }

    /// Whether `value` is written as an address or a network.
    pub(super) fn knows(value: &str) -> bool {
        address(value.trim()).is_some()
    }

    fn mask(self, network: IpNet) -> String {
        let widest = match network {
            IpNet::V4(_) => self.ipv4_prefix,
            IpNet::V6(_) => self.ipv6_prefix,
        };
        let length = network.prefix_len().min(widest);
        let masked = IpNet::new(network.addr(), length).unwrap_or(network).trunc();
        if length == masked.max_prefix_len() {
            masked.addr().to_string()
        } else {
            masked.to_string()
        }
    }
}

/// An address, one with a port, in brackets or with a zone, or a network.
fn address(text: &str) -> Option<IpNet> {
    let bare = |address: IpAddr| IpNet::from(address.to_canonical());
    if let Ok(address) = IpAddr::from_str(text) {
        return Some(bare(address));
    }
    if let Ok(address) = SocketAddr::from_str(text) {
        return Some(bare(address.ip()));
    }
    if let Some((network, _)) = text.split_once('/') {
        return folded(IpNet::from_str(text).ok()?, IpAddr::from_str(network).ok()?);
    }
    let inner = text
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'))
        .unwrap_or(text);
    let unzoned = inner.split_once('%').map_or(inner, |(address, _)| address);
    IpAddr::from_str(unzoned).ok().filter(IpAddr::is_ipv6).map(bare)
}

/// A network of mapped IPv4 addresses as the IPv4 network it is.
fn folded(network: IpNet, address: IpAddr) -> Option<IpNet> {
    match address.to_canonical() {
        IpAddr::V4(mapped) if address.is_ipv6() && network.prefix_len() >= 96 => {
            IpNet::new(IpAddr::V4(mapped), network.prefix_len() - 96).ok()
        }
        _ => Some(network),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_an_address_is_one_caller() {
        let check = |(ipv4_prefix, ipv6_prefix): (u8, u8), value: &[u8], counted: &str| {
            let normalizer = Normalizer {
                ipv4_prefix,
                ipv6_prefix,
            };
            assert_eq!(
                normalizer.apply(value),
                counted.as_bytes(),
                "{}",
                value.escape_ascii()
            );
        };
        check((32, 64), b"192.0.2.1", "192.0.2.1");
        check((32, 64), b" 192.0.2.1 ", "192.0.2.1");
        check((32, 64), b"192.0.2.1:443", "192.0.2.1");
        check((32, 64), b"::ffff:192.0.2.1", "192.0.2.1");
        check((32, 64), b"::ffff:c000:201", "192.0.2.1");
        check((32, 64), b"[::ffff:c000:201]:80", "192.0.2.1");
        check((24, 64), b"192.0.2.77", "192.0.2.0/24");
        check((24, 64), b"::ffff:192.0.2.77", "192.0.2.0/24");
        check((24, 64), b"192.0.2.77/32", "192.0.2.0/24");
        check((32, 64), b"192.0.2.77/24", "192.0.2.0/24");
        check((24, 64), b"::ffff:192.0.2.77/128", "192.0.2.0/24");
        check((0, 0), b"192.0.2.77", "0.0.0.0/0");
        check((32, 64), b"2001:db8::1", "2001:db8::/64");
        check((32, 64), b"2001:0DB8:0:0:ffff::1", "2001:db8::/64");
        check((32, 64), b"[2001:db8::1]", "2001:db8::/64");
        check((32, 64), b"fe80::1%eth0", "fe80::/64");
        check((32, 128), b"2001:DB8::1", "2001:db8::1");
        check((32, 64), b"", "not-an-address");
        check((32, 64), b"unknown", "not-an-address");
        check((32, 64), b"\xff\xfe", "not-an-address");
        check((32, 64), b"192.0.2.1, 192.0.2.2", "not-an-address");
        check((32, 64), b"010.0.0.1", "not-an-address");
    }
}
