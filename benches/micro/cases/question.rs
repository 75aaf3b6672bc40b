//! What is asked over the wire.

use bytes::Bytes;
use comporta::service::asker;

/// What gRPC puts in front of a message.
const PREFIX: usize = 5;

/// The domain that is asked about.
pub const DOMAIN: &str = "bench";

/// A request about so many clients, each in a descriptor of three entries, without what gRPC puts in front of it.
pub fn about(clients: usize) -> Bytes {
    about_plan("gold", clients)
}

/// The same, of clients of this plan.
pub fn about_plan(plan: &str, clients: usize) -> Bytes {
    let names: Vec<_> = (0..clients).map(|client| format!("{client:010}")).collect();
    let descriptors: Vec<_> = names
        .iter()
        .map(|name| vec![("route", "checkout"), ("plan", plan), ("client", name)])
        .collect();
    Bytes::from(asker::question(DOMAIN, &descriptors)).slice(PREFIX..)
}
