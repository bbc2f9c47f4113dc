//! Lost wake-ups and large crowds.

use std::time::{Duration, Instant};

use fairlane::RedisConfig;
use testkit::RedisServer;
use tokio::time::timeout;

use super::in_line;
use crate::child::Child;
use crate::world::{HEARTBEAT, LONG, connect, quick};

/// (14) The connection that carries the wake-ups is killed at the moment of every hand-over: the next look finds it.
#[tokio::test]
async fn a_lost_wake_up_costs_a_heartbeat() {
    let server = RedisServer::start();
    let config = quick(RedisConfig::single(server.url()));
    let (one, other) = (connect(config.clone()).await, connect(config).await);
    for _ in 0..3 {
        let held = one.fair_lock("a").acquire().await.unwrap();
        let lock = other.fair_lock("a");
        let waiter = tokio::spawn(async move { lock.acquire().await.unwrap().release().await.unwrap() });
        in_line(&one.fair_lock("a"), 1).await;
        server.command(&["CLIENT", "KILL", "TYPE", "pubsub"]);
        let start = Instant::now();
        held.release().await.unwrap();
        timeout(LONG, waiter).await.expect("it is found without a wake-up").unwrap();
        assert!(start.elapsed() < HEARTBEAT * 3 + Duration::from_secs(2), "{:?}", start.elapsed());
    }
}

/// (14) Ten thousand waiters on one client come and go: neither the process nor Redis keeps anything of them.
#[test]
fn memory_returns_after_ten_thousand_waiters() {
    let server = RedisServer::start();
    let crowd = Child::play("crowd", &server.url());
    let resident: Vec<u64> = (0..4).map(|_| crowd.says_after("resident").parse().unwrap()).collect();
    // The first time fills pools that are kept; from then on nothing is added.
    assert!(resident[3] < resident[0] + resident[0] / 4 + 8_000, "resident kB after each time: {resident:?}");
    for part in ["queue", "called", "held", "parked"] {
        assert_eq!(server.command(&["EXISTS", &format!("fairlane:fair:{{a}}:{part}")]).number(), 0, "{part}");
    }
    let fields = server.command(&["HLEN", "fairlane:fair:{a}"]).number();
    assert!(fields < 20, "{fields} fields are left of the line");
}
