//! What a gateway asks: a domain and descriptors, each an ordered list of entries. All bytes: Envoy forwards raw
//! header values, and a value that is not UTF-8 must be limited like any other.

use bytes::Bytes;

use super::limit::Period;
use super::quantity::Hits;

/// One key and its value. Any bytes, empty ones included.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    /// What kind of thing the value is: `client`, `plan`, `remote_address`.
    pub key: Bytes,
    /// Which one it is.
    pub value: Bytes,
}

/// An ordered list of entries that together name one budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// From the outermost level of the policy's tree to the innermost.
    pub entries: Vec<Entry>,
    /// The descriptor's own hits, or the request's.
    pub hits: Hits,
    /// A limit that the request brings along, in place of what the policy says.
    pub limit: Option<Override>,
}

/// A limit that a request brings along. Its number is any: 0 refuses, and 4294967295, which is how a gateway writes -1,
/// is that many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Override {
    /// Hits per period.
    pub count: u32,
    /// One second to ten years.
    pub period: Period,
}

/// One question: may this request pass?
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Names the tree of rules to look in.
    pub domain: Bytes,
    /// At least one.
    pub descriptors: Vec<Descriptor>,
}
