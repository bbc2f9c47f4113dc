//! How little is sent to Redis.

use std::time::Duration;

use fairlane::RedisConfig;
use testkit::RedisServer;
use tokio::task::JoinSet;

use super::in_line;
use crate::world::{LONG, connect};

/// Heartbeats slow enough not to be counted.
fn unhurried(server: &RedisServer) -> RedisConfig {
    RedisConfig::single(server.url()).with_heartbeat(LONG)
}

fn scripts(server: &RedisServer) -> u64 {
    server.calls("evalsha") + server.calls("eval")
}

/// Every operation is one script, sent by hash once the server knows it.
#[tokio::test]
async fn an_operation_is_one_command() {
    let server = RedisServer::start();
    let client = connect(unhurried(&server)).await;
    let (lock, unfair, semaphore) = (client.fair_lock("a"), client.lock("a"), client.semaphore("a", 3));
    let limiter = client.rate_limiter("a", 1000, LONG);
    let guard = client.guard("a");
    let everything_once = async || {
        lock.acquire().await.unwrap().release().await.unwrap();
        unfair.acquire().await.unwrap().release().await.unwrap();
        semaphore.acquire(2).await.unwrap().release().await.unwrap();
        limiter.check().await.unwrap();
        guard.claim("x", LONG).await.unwrap();
        guard.clear("x").await.unwrap();
    };
    everything_once().await;
    let (before, by_text) = (scripts(&server), server.calls("eval"));
    for _ in 0..10 {
        everything_once().await;
    }
    assert_eq!(scripts(&server) - before, 90);
    assert_eq!(server.calls("eval"), by_text, "known scripts are sent by hash");
}

/// A contended hand-over takes at most two commands beyond the release; here it is one, the claim.
#[tokio::test]
async fn a_hand_over_is_one_command_more() {
    const WAITERS: u64 = 50;
    let server = RedisServer::start();
    let client = connect(unhurried(&server)).await;
    let lock = client.fair_lock("a");
    lock.acquire().await.unwrap().release().await.expect("the server knows the scripts from here on");
    let held = lock.acquire().await.unwrap();
    let mut tasks = JoinSet::new();
    for _ in 0..WAITERS {
        let lock = client.fair_lock("a");
        tasks.spawn(async move { lock.acquire().await.unwrap().release().await.unwrap() });
    }
    in_line(&lock, WAITERS).await;
    let before = scripts(&server);
    held.release().await.unwrap();
    tokio::time::timeout(LONG, tasks.join_all()).await.expect("everybody is served");
    let calls = scripts(&server) - before;
    assert!(calls <= 2 * WAITERS + 1, "{calls} scripts for {WAITERS} hand-overs");
}

/// One connection for all commands and one for all wake-ups, however many locks, waiters and holders.
#[tokio::test]
async fn a_client_has_two_connections() {
    let server = RedisServer::start();
    let client = connect(unhurried(&server)).await;
    let mut tasks = JoinSet::new();
    for number in 0..100 {
        let lock = client.fair_lock(&format!("{}", number % 10));
        tasks.spawn(async move {
            let held = lock.acquire().await.unwrap();
            tokio::time::sleep(Duration::from_millis(1)).await;
            held.release().await.unwrap();
        });
    }
    tasks.join_all().await;
    let list = server.command(&["CLIENT", "LIST"]).to_string();
    // The third is the one that asks.
    assert_eq!(list.lines().filter(|line| line.contains("addr=")).count(), 3, "{list}");
}
