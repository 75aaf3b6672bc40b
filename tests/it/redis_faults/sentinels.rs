//! Sentinels that name another primary.

use super::{DOMAIN, Fault, loaded};
use crate::harness::process::poll;
use crate::harness::sentinels::Sentinels;

#[test]
fn the_primary_is_killed() {
    let mut sentinels = Sentinels::start();
    let (comporta, load) = loaded(&sentinels.url());
    sentinels.server_mut(0).kill();
    sentinels.wait_for_primary(1);
    let record = load.until_recovered();
    Fault {
        // What it had acknowledged and its replica had not heard.
        losses: 1,
        ..Fault::new("killed, and its replica promoted")
    }
    .check(&comporta, &record);
}

#[test]
fn the_primary_stands_still() {
    let sentinels = Sentinels::start();
    let (comporta, load) = loaded(&sentinels.url());
    sentinels.server(0).pause();
    sentinels.wait_for_primary(1);
    let record = load.until_recovered();
    sentinels.server(0).resume();
    Fault {
        losses: 1,
        ..Fault::new("stopped, and its replica promoted")
    }
    .check(&comporta, &record);
}

#[test]
fn the_two_are_exchanged() {
    let sentinels = Sentinels::start();
    let (comporta, load) = loaded(&sentinels.url());
    let next = sentinels.fail_over();
    let record = load.until_recovered();
    Fault {
        // What the old primary went on counting is nothing to the new one.
        losses: 1,
        is_felt: false,
        ..Fault::new("exchanged with its replica")
    }
    .check(&comporta, &record);
    // Also where nothing is wrong with the old one.
    let () = sentinels.server(next).ask(&["CONFIG", "RESETSTAT"]);
    let client = comporta.client();
    poll("calls to the new primary", || {
        client.ask(DOMAIN, &["steady=0"]);
        let said: String = sentinels.server(next).ask(&["INFO", "commandstats"]);
        said.contains("cmdstat_evalsha").then_some(())
    });
}
