//! Finding the longest of many networks that an address is in.

use std::collections::HashMap;

use ipnet::IpNet;

use super::normalize;

/// Networks and what each stands for.
#[derive(Debug)]
pub(super) struct Networks<T> {
    by_network: HashMap<IpNet, T>,
    /// The prefix lengths there are, the longest first.
    lengths: Vec<u8>,
}

impl<T> Default for Networks<T> {
    fn default() -> Self {
        Self {
            by_network: HashMap::new(),
            lengths: Vec::new(),
        }
    }
}

impl<T: Copy> Networks<T> {
    /// Adds a network that is not there yet.
    pub(super) fn insert(&mut self, network: IpNet, to: T) {
        self.by_network.insert(network.trunc(), to);
        if let Err(place) = self
            .lengths
            .binary_search_by(|length| network.prefix_len().cmp(length))
        {
            self.lengths.insert(place, network.prefix_len());
        }
    }

    /// What the longest network stands for that the address or network `value` is in: a probe per prefix length.
    pub(super) fn find(&self, value: &[u8]) -> Option<T> {
        self.longest(value).map(|(_, found)| found)
    }

    /// All networks, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (IpNet, T)> {
        self.by_network.iter().map(|(network, to)| (*network, *to))
    }

    /// As [`find`](Self::find), with the network.
    pub(super) fn longest(&self, value: &[u8]) -> Option<(IpNet, T)> {
        if self.lengths.is_empty() {
            return None;
        }
        let address = normalize::network(std::str::from_utf8(value).ok()?)?;
        let lengths = self
            .lengths
            .iter()
            .filter(|length| **length <= address.prefix_len());
        lengths
            .filter_map(|length| IpNet::new(address.addr(), *length).ok())
            .find_map(|network| {
                let network = network.trunc();
                self.by_network.get(&network).map(|found| (network, *found))
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_prefix_wins() {
        let mut networks = Networks::default();
        for (name, network) in [
            "10.0.0.0/8",
            "10.1.0.0/16",
            "10.1.2.3/32",
            "2001:db8::/32",
            "::/0",
        ]
        .iter()
        .enumerate()
        {
            networks.insert(network.parse().expect(network), name);
        }
        let check =
            |value: &str, found: Option<usize>| assert_eq!(networks.find(value.as_bytes()), found, "{value}");
        check("10.9.9.9", Some(0));
        check("10.1.9.9", Some(1));
        check("10.1.2.3", Some(2));
        check("::ffff:10.1.2.3", Some(2));
        check("10.1.0.0/16", Some(1));
        check("10.0.0.0/7", None);
        check("11.0.0.1", None);
        check("2001:db8::1", Some(3));
        check("2001:db9::1", Some(4));
        check("nonsense", None);
    }
}
