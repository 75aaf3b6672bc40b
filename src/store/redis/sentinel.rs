//! Asks sentinels which server is the primary now.

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;

use super::connect::{self, Address, CONNECTING};
use super::target::RedisTarget;

/// Where the primary of `master` is: what most of the sentinels say that answer, and no later than the first of them that
/// makes it a majority of all. One that was cut off may still tell of an old one.
///
/// # Errors
/// What each of them said instead, when none knows.
pub(super) async fn primary(
    target: &RedisTarget,
    sentinels: &[Address],
    master: &str,
) -> Result<Address, String> {
    let mut asked: FuturesUnordered<_> = sentinels
        .iter()
        .map(|sentinel| async move { (sentinel, ask(target, sentinel, master).await) })
        .collect();
    let mut votes: Vec<(Address, usize)> = Vec::new();
    let mut failures = Vec::new();
    while let Some((sentinel, answer)) = asked.next().await {
        match answer {
            Ok(address) => {
                let count = vote(&mut votes, address.clone());
                if 2 * count > sentinels.len() {
                    return Ok(address);
                }
            }
            Err(reason) => failures.push(format!("{sentinel}: {reason}")),
        }
    }
    // The first of those with as many votes.
    votes
        .into_iter()
        .rev()
        .max_by_key(|(_, count)| *count)
        .map(|(address, _)| address)
        .ok_or_else(|| format!("no sentinel knows where {master} is: {}", failures.join("; ")))
}

fn vote(votes: &mut Vec<(Address, usize)>, address: Address) -> usize {
    if let Some((_, count)) = votes.iter_mut().find(|(known, _)| *known == address) {
        *count += 1;
        *count
    } else {
        votes.push((address, 1));
        1
    }
}

async fn ask(target: &RedisTarget, sentinel: &Address, master: &str) -> Result<Address, String> {
    let client = target.sentinel(sentinel).map_err(|error| error.to_string())?;
    let asking = async {
        let mut connection = connect::open(&client).await?;
        redis::cmd("SENTINEL")
            .arg("GET-MASTER-ADDR-BY-NAME")
            .arg(master)
            .query_async::<Option<(String, u16)>>(&mut connection)
            .await
            .map_err(|error| error.to_string())
    };
    match tokio::time::timeout(CONNECTING, asking).await {
        Ok(Ok(Some((host, port)))) => Ok(Address::Tcp(host, port)),
        Ok(Ok(None)) => Err(format!("watches no master named {master}")),
        Ok(Err(reason)) => Err(reason),
        Err(_) => Err(format!("no answer within {CONNECTING:?}")),
    }
}
