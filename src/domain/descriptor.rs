//! What a gateway asks, read where it stands: a domain and descriptors, each an ordered list of entries. All bytes: Envoy
//! forwards raw header values, and a value that is not UTF-8 must be limited like any other.

use smallvec::SmallVec;

use super::limit::Period;
use super::quantity::Hits;

/// One key and its value. Any bytes, empty ones included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Entry<'a> {
    /// What kind of thing the value is: `client`, `plan`, `remote_address`.
    pub key: &'a [u8],
    /// Which one it is.
    pub value: &'a [u8],
}

impl<'a> Entry<'a> {
    /// An entry of `key` and `value`.
    pub fn new(key: &'a (impl AsRef<[u8]> + ?Sized), value: &'a (impl AsRef<[u8]> + ?Sized)) -> Self {
        Self {
            key: key.as_ref(),
            value: value.as_ref(),
        }
    }
}

/// As many entries as a descriptor usually has are held and matched without asking for memory.
pub const USUAL_ENTRIES: usize = 4;

/// The entries of one descriptor.
pub type Entries<'a> = SmallVec<[Entry<'a>; USUAL_ENTRIES]>;

/// An ordered list of entries that together name one budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Descriptor<'a> {
    /// From the outermost level of the policy's tree to the innermost.
    pub entries: Entries<'a>,
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
pub struct Request<'a> {
    /// Names the tree of rules to look in.
    pub domain: &'a [u8],
    /// At least one.
    pub descriptors: Vec<Descriptor<'a>>,
}
