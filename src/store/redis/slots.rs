//! Which node of a cluster serves which keys.

use redis::Value;
use redis::aio::MultiplexedConnection;

use super::connect::{self, Entry};
use super::meaning;
use super::url::Address;

/// How many slots every cluster has.
pub(super) const SLOTS: u16 = 16384;

/// The slot of `key`, by what is between its first braces.
pub(super) fn slot_of(key: &[u8]) -> u16 {
    let tag = key
        .iter()
        .position(|byte| *byte == b'{')
        .map(|open| &key[open + 1..])
        .and_then(|rest| {
            let close = rest.iter().position(|byte| *byte == b'}')?;
            (close > 0).then(|| &rest[..close])
        });
    crc16::State::<crc16::XMODEM>::calculate(tag.unwrap_or(key)) % SLOTS
}

/// The primaries of a cluster and the slots that each serves, as one of its nodes sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SlotMap {
    /// First slot, last slot, primary; in order.
    ranges: Vec<(u16, u16, Address)>,
    /// Every node that was named, primaries first.
    nodes: Vec<Address>,
}

impl SlotMap {
    /// Asks the node at `asked` over `connection`.
    ///
    /// # Errors
    /// When it does not say, or says that nobody serves anything.
    pub(super) async fn ask(connection: &mut MultiplexedConnection, asked: &Address) -> Result<Self, String> {
        let mut command = redis::cmd("CLUSTER");
        command.arg("SLOTS");
        let answer = connect::call(connection, Entry::Plain, command)
            .await
            .map_err(|error| meaning::explained(&error))?;
        Self::read(&answer, asked)
            .filter(|map| !map.nodes.is_empty())
            .ok_or_else(|| String::from("no slot is served"))
    }

    /// Reads the answer to `CLUSTER SLOTS` of the node at `asked`: a node that does not know its own host leaves it out.
    fn read(answer: &Value, asked: &Address) -> Option<Self> {
        let Value::Array(rows) = answer else { return None };
        let mut map = Self::default();
        let mut replicas = Vec::new();
        for row in rows {
            let Value::Array(row) = row else { return None };
            let [Value::Int(first), Value::Int(last), nodes @ ..] = row.as_slice() else {
                return None;
            };
            let mut nodes = nodes.iter().filter_map(|node| address_of(node, asked));
            let primary = nodes.next()?;
            replicas.extend(nodes);
            map.ranges
                .push((u16::try_from(*first).ok()?, u16::try_from(*last).ok()?, primary));
        }
        map.ranges.sort_unstable_by_key(|(first, _, _)| *first);
        let primaries: Vec<_> = map.ranges.iter().map(|(_, _, primary)| primary.clone()).collect();
        for node in primaries.into_iter().chain(replicas) {
            if !map.nodes.contains(&node) {
                map.nodes.push(node);
            }
        }
        Some(map)
    }

    /// The node that serves `slot`; none while nobody does.
    pub(super) fn primary(&self, slot: u16) -> Option<&Address> {
        let after = self.ranges.partition_point(|(first, _, _)| *first <= slot);
        let (_, last, primary) = self.ranges.get(after.checked_sub(1)?)?;
        (slot <= *last).then_some(primary)
    }

    /// The primaries, each once for every range.
    pub(super) fn primaries(&self) -> impl Iterator<Item = &Address> {
        self.ranges.iter().map(|(_, _, primary)| primary)
    }

    /// Every node that was named, primaries first.
    pub(super) fn nodes(&self) -> &[Address] {
        &self.nodes
    }
}

fn address_of(node: &Value, asked: &Address) -> Option<Address> {
    let Value::Array(node) = node else { return None };
    let [host, Value::Int(port), ..] = node.as_slice() else {
        return None;
    };
    let named = match host {
        Value::BulkString(host) => std::str::from_utf8(host).ok()?,
        Value::Nil => "",
        _ => return None,
    };
    Some(asked.told(named, u16::try_from(*port).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(host: &str, port: i64) -> Value {
        Value::Array(vec![
            Value::BulkString(host.as_bytes().to_vec()),
            Value::Int(port),
            Value::BulkString(b"id".to_vec()),
        ])
    }

    fn row(first: i64, last: i64, nodes: Vec<Value>) -> Value {
        let ends = [Value::Int(first), Value::Int(last)];
        Value::Array(ends.into_iter().chain(nodes).collect())
    }

    fn address(host: &str, port: u16) -> Address {
        Address::Tcp(host.to_owned(), port)
    }

    #[test]
    fn slots_are_those_of_redis() {
        // The specification's own example, and what `CLUSTER KEYSLOT` answers.
        assert_eq!(crc16::State::<crc16::XMODEM>::calculate(b"123456789"), 0x31c3);
        assert_eq!(slot_of(b"foo"), 12182);
        assert_eq!(slot_of(b"{foo}.bar"), 12182);
        assert_eq!(slot_of(b"a{foo}{bar}"), 12182);
        assert_eq!(slot_of(b"foo{}{bar}"), slot_of_whole(b"foo{}{bar}"));
        assert_eq!(slot_of(b"{foo"), slot_of_whole(b"{foo"));
    }

    fn slot_of_whole(key: &[u8]) -> u16 {
        crc16::State::<crc16::XMODEM>::calculate(key) % SLOTS
    }

    #[test]
    fn every_slot_has_the_primary_of_its_range() {
        let answer = Value::Array(vec![
            row(8192, 16383, vec![node("b", 2), node("b", 3)]),
            row(0, 99, vec![node("a", 1), node("a", 4)]),
            row(200, 8191, vec![node("a", 1)]),
        ]);
        let map = SlotMap::read(&answer, &address("seed", 9)).expect("a map");
        for (slot, primary) in [
            (0, Some(address("a", 1))),
            (99, Some(address("a", 1))),
            (100, None),
            (199, None),
            (200, Some(address("a", 1))),
            (16383, Some(address("b", 2))),
        ] {
            assert_eq!(map.primary(slot), primary.as_ref(), "{slot}");
        }
        assert_eq!(
            map.nodes(),
            [address("a", 1), address("b", 2), address("b", 3), address("a", 4)]
        );
    }

    #[test]
    fn a_node_without_a_name_is_where_it_was_asked() {
        for unknown in [node("", 7), node("?", 7)] {
            let answer = Value::Array(vec![row(0, 16383, vec![unknown])]);
            let map = SlotMap::read(&answer, &address("seed", 9)).expect("a map");
            assert_eq!(map.primary(1), Some(&address("seed", 7)));
        }
    }

    #[test]
    fn what_is_no_map_is_none() {
        let asked = address("seed", 9);
        for strange in [
            Value::Nil,
            Value::Array(vec![Value::Int(1)]),
            Value::Array(vec![row(0, 1, vec![])]),
            Value::Array(vec![row(-1, 1, vec![node("a", 1)])]),
            Value::Array(vec![row(0, 1, vec![node("a", 99_999)])]),
        ] {
            assert_eq!(SlotMap::read(&strange, &asked), None, "{strange:?}");
        }
        assert_eq!(SlotMap::default().primary(0), None);
    }
}
