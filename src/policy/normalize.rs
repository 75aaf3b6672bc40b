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
    /// The value is a list of addresses, of which the one before the last so many counts.
    pub trusted_hops: Option<u8>,
    /// The value is an address, of which this network counts.
    pub prefixes: Option<Prefixes>,
    /// Letters of ASCII count as small ones.
    pub lower_case: bool,
}

/// How long the networks are by which addresses are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Prefixes {
    /// 0 to 32.
    pub ipv4: u8,
    /// 0 to 128.
    pub ipv6: u8,
}

/// Which networks count as what they are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Width {
    /// As long as those by which addresses are counted, or longer. A caller that may write a wider one would find a
    /// budget of its own in each.
    AsCounted,
    /// All: a policy says what it means.
    Any,
}

impl Default for Prefixes {
    /// Each IPv4 address by itself, and of IPv6 what one subscriber usually holds.
    fn default() -> Self {
        Self { ipv4: 32, ipv6: 64 }
    }
}

impl Normalizer {
    /// The value that `value` counts as.
    pub(super) fn apply(self, value: &[u8]) -> Cow<'_, [u8]> {
        let value = match self.trusted_hops {
            Some(hops) => match value.rsplit(|byte| *byte == b',').nth(usize::from(hops)) {
                Some(hop) => hop.trim_ascii(),
                // The list is shorter than it is behind that many proxies: nothing in it can be trusted.
                None => NOT_AN_ADDRESS,
            },
            None => value,
        };
        match self.prefixes {
            Some(prefixes) => prefixes.apply(value, Width::AsCounted),
            None if self.lower_case && value.iter().any(u8::is_ascii_uppercase) => {
                Cow::Owned(value.to_ascii_lowercase())
            }
            None => Cow::Borrowed(value),
        }
    }

    /// The value that `value` of a policy counts as: what is written there is one address, not a list.
    pub(super) fn apply_to_written(self, value: &[u8]) -> Cow<'_, [u8]> {
        match self.prefixes {
            Some(prefixes) => prefixes.apply(value, Width::Any),
            None => Self {
                trusted_hops: None,
                ..self
            }
            .apply(value),
        }
    }
}

impl Prefixes {
    /// The network of `value`, an IPv6 address that stands for an IPv4 one as the latter, and one and the same value for
    /// all that are not addresses.
    fn apply(self, value: &[u8], width: Width) -> Cow<'_, [u8]> {
        let Some(text) = std::str::from_utf8(value).ok() else {
            return Cow::Borrowed(NOT_AN_ADDRESS);
        };
        if self.ipv4 == 32 && Ipv4Addr::from_str(text).is_ok() {
            // Only the shortest spelling parses, so this is how it is written already.
            return Cow::Borrowed(value);
        }
        match network(text) {
            Some(network) if width == Width::Any || network.prefix_len() >= self.longest(network) => {
                Cow::Owned(shown(self.mask(network)).into_bytes())
            }
            _ => Cow::Borrowed(NOT_AN_ADDRESS),
        }
    }

    /// How long the networks of this family are by which addresses are counted.
    const fn longest(self, network: IpNet) -> u8 {
        match network {
            IpNet::V4(_) => self.ipv4,
            IpNet::V6(_) => self.ipv6,
        }
    }

    /// The network by which the addresses of `network` are counted.
    pub(super) fn mask(self, network: IpNet) -> IpNet {
        let length = network.prefix_len().min(self.longest(network));
        IpNet::new(network.addr(), length).unwrap_or(network).trunc()
    }
}

/// An address where the network is one, else the network.
pub(super) fn shown(network: IpNet) -> String {
    if network.prefix_len() == network.max_prefix_len() {
        network.addr().to_string()
    } else {
        network.to_string()
    }
}

/// The network that `text` is, a single address being one as well.
pub(super) fn network(text: &str) -> Option<IpNet> {
    address(text.trim())
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
        let check = |(ipv4, ipv6): (u8, u8), value: &[u8], counted: &str| {
            let prefixes = Some(Prefixes { ipv4, ipv6 });
            let normalizer = Normalizer {
                trusted_hops: None,
                prefixes,
                lower_case: false,
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
        check((24, 64), b"192.0.2.77/24", "192.0.2.0/24");
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

    #[test]
    fn no_caller_finds_a_budget_in_each_width_of_its_address() {
        let normalizer = Normalizer {
            trusted_hops: None,
            prefixes: Some(Prefixes::default()),
            lower_case: false,
        };
        for wider in [
            "192.0.2.77/31",
            "192.0.2.77/0",
            "2001:db8::1/63",
            "::ffff:192.0.2.77/127",
        ] {
            assert_eq!(normalizer.apply(wider.as_bytes()), NOT_AN_ADDRESS, "{wider}");
            assert_ne!(
                normalizer.apply_to_written(wider.as_bytes()),
                NOT_AN_ADDRESS,
                "a policy means {wider}"
            );
        }
    }

    #[test]
    fn of_a_forwarded_list_only_what_trusted_proxies_wrote_counts() {
        let check = |hops: u8, value: &str, counted: &str| {
            let normalizer = Normalizer {
                trusted_hops: Some(hops),
                prefixes: Some(Prefixes::default()),
                lower_case: false,
            };
            assert_eq!(normalizer.apply(value.as_bytes()), counted.as_bytes(), "{value}");
        };
        check(0, "192.0.2.1", "192.0.2.1");
        check(0, "203.0.113.9, 192.0.2.1", "192.0.2.1");
        check(1, "203.0.113.9, 192.0.2.1", "203.0.113.9");
        check(1, "1.1.1.1,203.0.113.9 ,192.0.2.1", "203.0.113.9");
        check(1, "spoofed, ::ffff:203.0.113.9, 192.0.2.1", "203.0.113.9");
        check(2, "203.0.113.9, 192.0.2.1", "not-an-address");
        check(0, "", "not-an-address");
        check(1, ",192.0.2.1", "not-an-address");
    }

    #[test]
    fn case_is_folded_only_where_there_is_any() {
        let normalizer = Normalizer {
            trusted_hops: None,
            prefixes: None,
            lower_case: true,
        };
        assert_eq!(
            normalizer.apply(b"Acme \xc3\x89"),
            Cow::<[u8]>::Owned(b"acme \xc3\x89".to_vec())
        );
        assert!(matches!(normalizer.apply(b"acme"), Cow::Borrowed(b"acme")));
    }
}
