pub mod process;
pub mod redis;
pub fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}
pub mod observer;

/// Waits until the store's first connection is there.
pub async fn connected(store: &impl comporta::store::Store) {
    use comporta::domain::check::Group;
    use comporta::domain::time::{Micros, Timestamp};
    let limit = observer::any_limit();
    let check = comporta::domain::check::Check {
        key: b"connected",
        limit: &limit,
        hits: comporta::domain::quantity::Hits::Look,
        binding: Default::default(),
        charge: Default::default(),
    };
    let group = Group {
        checks: &[check],
        longest_wait: Micros::ZERO,
    };
    let deadline = std::time::Instant::now() + process::PATIENCE;
    while let Err(error) = store.decide(&group, Timestamp::default(), deadline).await {
        assert!(std::time::Instant::now() < deadline, "{error}");
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}
