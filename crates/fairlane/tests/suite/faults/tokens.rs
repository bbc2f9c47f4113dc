//! Fencing tokens never go backwards.

use fairlane::{Client, RedisConfig, Topology};
use testkit::RedisServer;

use crate::world::{connect, quick};

async fn token(client: &Client) -> u64 {
    let mut highest = 0;
    for held in [client.fair_lock("a").acquire().await.unwrap(), client.lock("b").acquire().await.unwrap()] {
        highest = highest.max(held.fencing_token());
        held.release().await.unwrap();
    }
    highest
}

async fn fair_token(client: &Client) -> u64 {
    let held = client.fair_lock("a").acquire().await.unwrap();
    let token = held.fencing_token();
    held.release().await.unwrap();
    token
}

/// (8) Higher after the keys were deleted, after `FLUSHALL`, after a restart without data, and after a failover.
#[tokio::test]
async fn tokens_grow_through_everything() {
    let mut primary = RedisServer::start();
    let replica = RedisServer::with_options(&["--replicaof", "127.0.0.1", &primary.port().to_string()]);
    let config = quick(RedisConfig::new(Topology::Replicated(vec![primary.url(), replica.url()])));
    let client = connect(config.clone()).await;
    let mut last = token(&client).await;
    let mut grew = |next: u64| {
        assert!(next > last, "{next} after {last}");
        last = next;
    };
    for key in primary.command(&["KEYS", "*"]).to_string().lines() {
        primary.command(&["DEL", key]);
    }
    grew(fair_token(&client).await);
    primary.command(&["FLUSHALL"]);
    grew(fair_token(&client).await);
    grew(fair_token(&connect(config.clone()).await).await);
    primary.restart();
    grew(fair_token(&client).await);
    replica.until_replicating();
    primary.kill();
    replica.command(&["REPLICAOF", "NO", "ONE"]);
    grew(fair_token(&client).await);
    grew(fair_token(&connect(config).await).await);
}

/// (8) A server whose clock is behind cannot pull a token below what the asking client has seen.
#[tokio::test]
async fn a_client_remembers_the_highest_token() {
    let server = RedisServer::start();
    let client = connect(quick(RedisConfig::single(server.url()))).await;
    fair_token(&client).await;
    // As if the server's clock had been an hour ahead when the last token was given, and was then emptied.
    let ahead = fair_token(&client).await + 3_600_000_000;
    server.command(&["HSET", "fairlane:fair:{a}", "tk", &ahead.to_string()]);
    let from_the_future = fair_token(&client).await;
    assert!(from_the_future > ahead);
    server.command(&["FLUSHALL"]);
    assert!(fair_token(&client).await > from_the_future);
    // The control: a client that has seen nothing gets one by the server's clock.
    server.command(&["FLUSHALL"]);
    assert!(fair_token(&connect(quick(RedisConfig::single(server.url()))).await).await < from_the_future);
}
