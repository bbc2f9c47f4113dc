//! A Redis that forgets.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use fairlane::{Client, Error, Lease, RedisConfig};
use testkit::RedisServer;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::{in_line, told_lost};
use crate::world::{LONG, connect, quick};

const LEASE: Lease = Lease::Renewing(Duration::from_secs(2));

/// Ten waiters on clients of their own. Each counts itself among the believers while it holds and is not told otherwise.
async fn believers(config: &RedisConfig, most: &Arc<AtomicU32>, believing: &Arc<AtomicU32>) -> JoinSet<u32> {
    let mut tasks = JoinSet::new();
    let looker = connect(config.clone()).await.fair_lock("a");
    for number in 0..10 {
        let (most, believing) = (Arc::clone(most), Arc::clone(believing));
        let lock = connect(config.clone()).await.fair_lock("a").with_lease(LEASE);
        tasks.spawn(async move {
            let held = lock.acquire().await.unwrap();
            most.fetch_max(believing.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::select! {
                () = held.lost() => {}
                () = sleep(Duration::from_millis(20)) => {}
            }
            believing.fetch_sub(1, Ordering::SeqCst);
            let _ = held.release().await;
            number
        });
        in_line(&looker, u64::from(number) + 1).await;
    }
    tasks
}

async fn held_first(client: &Client) -> fairlane::Held {
    client.fair_lock("a").with_lease(LEASE).acquire().await.unwrap()
}

/// (12) Redis restarts empty while one holds and ten wait: the holder keeps the lock, the waiters are served afterwards
/// in their old order, and at no time do two believe to hold it.
#[tokio::test]
async fn a_restart_without_data_is_survived() {
    let mut server = RedisServer::start();
    let config = quick(RedisConfig::single(server.url())).with_attempts(20);
    let client = connect(config.clone()).await;
    let held = held_first(&client).await;
    let (most, believing) = (Arc::default(), Arc::new(AtomicU32::new(1)));
    let mut tasks = believers(&config, &most, &believing).await;
    server.restart();
    in_line(&client.fair_lock("a"), 10).await;
    assert!(!held.is_lost(), "the holder has put its grant back");
    sleep(Duration::from_secs(3)).await;
    assert!(
        !held.is_lost() && tasks.try_join_next().is_none(),
        "more than a lease later it is still the only one"
    );
    believing.fetch_sub(1, Ordering::SeqCst);
    held.release().await.unwrap();
    let mut order = Vec::new();
    while let Some(number) = timeout(LONG, tasks.join_next()).await.expect("everybody is served") {
        order.push(number.unwrap());
    }
    assert_eq!(order, (0..10).collect::<Vec<_>>());
    assert_eq!(most.load(Ordering::SeqCst), 1, "never two that believe");
}

/// (12) The same with a holder that died at the same time: after a lease without a report the first in line is granted.
#[tokio::test]
async fn a_holder_that_does_not_report_back_is_given_up() {
    let server = RedisServer::start();
    let config = quick(RedisConfig::single(server.url()));
    let mut holder = crate::child::Child::play("hold", &server.url());
    holder.says_after("held");
    let (most, believing) = (Arc::default(), Arc::default());
    let tasks = believers(&config, &most, &believing).await;
    holder.process.kill();
    server.command(&["FLUSHALL"]);
    let order = timeout(LONG, tasks.join_all()).await.expect("everybody is served");
    assert_eq!(order.len(), 10);
    assert_eq!(most.load(Ordering::SeqCst), 1);
}

/// (12) Scripts are reloaded when Redis has forgotten them.
#[tokio::test]
async fn scripts_are_sent_again() {
    let server = RedisServer::start();
    let config = quick(RedisConfig::single(server.url()));
    let client = connect(config.clone()).await;
    let held = held_first(&client).await;
    let (most, believing) = (Arc::default(), Arc::default());
    let tasks = believers(&config, &most, &believing).await;
    server.command(&["SCRIPT", "FLUSH"]);
    sleep(Duration::from_secs(1)).await;
    server.command(&["SCRIPT", "FLUSH"]);
    held.release().await.unwrap();
    assert_eq!(timeout(LONG, tasks.join_all()).await.expect("everybody is served").len(), 10);
    assert_eq!(most.load(Ordering::SeqCst), 1);
}

/// What is stated as possible: somebody who knew nothing of the lock takes it from an emptied Redis. The old holder is
/// told within a heartbeat or so, and the tokens tell the two apart.
#[tokio::test]
async fn a_stranger_may_come_first_and_the_old_holder_is_told() {
    let server = RedisServer::start();
    let config = quick(RedisConfig::single(server.url()));
    let (one, other) = (connect(config.clone()).await, connect(config).await);
    let held = one.fair_lock("a").acquire().await.unwrap();
    let unfair = one.lock("a").acquire().await.unwrap();
    // Until the client has left its sign of presence, by which it notices that Redis was emptied.
    sleep(Duration::from_millis(700)).await;
    server.command(&["FLUSHALL"]);
    let stranger = other.fair_lock("a").try_acquire(Duration::ZERO).await;
    let unfair_stranger = other.lock("a").try_acquire(Duration::ZERO).await;
    if let Ok(stranger) = stranger {
        assert!(stranger.fencing_token() > held.fencing_token());
        told_lost(&held).await;
        assert!(matches!(held.release().await, Err(Error::Lost { .. })));
    }
    if let Ok(stranger) = unfair_stranger {
        told_lost(&unfair).await;
        stranger.release().await.unwrap();
    }
}

/// Redis is away for a while: those in line wait it out, new ones get a clear error.
#[tokio::test]
async fn an_outage_is_waited_out_by_those_in_line() {
    let mut server = RedisServer::start();
    let config = RedisConfig::single(server.url()).with_heartbeat(Duration::from_millis(300));
    let config = config.with_call_timeout(Duration::from_millis(500));
    let (one, other) = (connect(config.clone()).await, connect(config).await);
    let held = held_first(&one).await;
    let waiter = tokio::spawn(async move { other.fair_lock("a").with_lease(LEASE).acquire().await });
    in_line(&one.fair_lock("a"), 1).await;
    server.kill();
    let refused = one.fair_lock("b").acquire().await;
    assert!(matches!(refused, Err(Error::Unavailable { .. })), "{refused:?}");
    assert!(matches!(held.release().await, Err(Error::Unavailable { .. } | Error::Lost { .. })));
    server.restart();
    let served = timeout(LONG, waiter).await.expect("the waiter is served when Redis is back").unwrap();
    served.unwrap().release().await.unwrap();
}
