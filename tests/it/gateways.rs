//! What gateways do with their connections.

use std::time::Duration;

use crate::harness::comporta::{Comporta, admitted, request};
use crate::harness::repository;

#[test]
fn calls_that_a_gateway_gave_up_on_cost_the_others_nothing() {
    let comporta = Comporta::serve(repository("deploy/policy.yaml"), &[]);
    let client = comporta.client();
    // So that the connection is up, with all settings exchanged.
    assert!(client.admits("edge", "client=ana,plan=free"));
    // A machine that is short of time may well keep the process waiting for longer than gateways wait for it.
    comporta.pause();
    let answer = client.outlive(
        &request("edge", &["client=ana,plan=free"]),
        500,
        Duration::from_millis(50),
        || comporta.resume(),
    );
    assert!(admitted(&answer.expect("an answer on the same connection")));
}
