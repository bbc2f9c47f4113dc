//! Processes that die or freeze.

use std::time::{Duration, Instant};

use fairlane::{Lease, RedisConfig};
use testkit::RedisServer;
use tokio::time::timeout;

use super::{Fenced, in_line};
use crate::child::Child;
use crate::world::{HEARTBEAT, LONG, connect, quick};

/// How long a dead waiter can hold up the line: it has three heartbeats to claim, and somebody looks after one more.
const ONE_DEATH: Duration = HEARTBEAT.saturating_mul(4);

async fn grant_after_deaths(deaths: usize) -> Duration {
    let server = RedisServer::start();
    let lock = connect(quick(RedisConfig::single(server.url()))).await.fair_lock("a");
    let held = lock.acquire().await.unwrap();
    let mut waiters = Vec::new();
    for number in 0..=deaths {
        waiters.push(Child::play("wait", &server.url()));
        in_line(&lock, number as u64 + 1).await;
    }
    for waiter in &mut waiters[..deaths] {
        waiter.process.kill();
    }
    let start = Instant::now();
    held.release().await.unwrap();
    let survivor = waiters.pop().unwrap();
    assert_eq!(survivor.says(), "asking");
    survivor.hears("granted").await;
    start.elapsed()
}

/// (3) `kill -9` of the head: the next is granted within one heartbeat period.
#[tokio::test]
async fn a_killed_head_holds_nobody_up_for_long() {
    let took = grant_after_deaths(1).await;
    assert!(took < ONE_DEATH + Duration::from_secs(2), "{took:?}");
}

/// (3) `kill -9` of the first ten: they are passed over in one go. Added up they would take ten times as long.
#[tokio::test]
async fn ten_killed_heads_are_passed_over_at_once() {
    let took = grant_after_deaths(10).await;
    assert!(took < ONE_DEATH + Duration::from_secs(3), "{took:?}");
    assert!(ONE_DEATH * 10 > ONE_DEATH + Duration::from_secs(3), "or else this shows nothing");
}

/// (3) `kill -9` of a thousand waiters in one process: still one heartbeat period.
#[tokio::test]
async fn a_thousand_dead_waiters_are_passed_over_at_once() {
    let server = RedisServer::start();
    let config = quick(RedisConfig::single(server.url()));
    let lock = connect(config.clone()).await.fair_lock("a");
    let held = lock.acquire().await.unwrap();
    let mut crowd = Child::play("thousand", &server.url());
    in_line(&lock, 1000).await;
    let survivor = connect(config).await.fair_lock("a");
    let survivor = tokio::spawn(async move { survivor.acquire().await });
    in_line(&lock, 1001).await;
    crowd.process.kill();
    let start = Instant::now();
    held.release().await.unwrap();
    timeout(LONG, survivor)
        .await
        .expect("the survivor is granted")
        .unwrap()
        .unwrap()
        .release()
        .await
        .unwrap();
    assert!(start.elapsed() < ONE_DEATH + Duration::from_secs(3), "{:?}", start.elapsed());
}

/// (6) While the head is dead and the lock is free, those behind it send a heartbeat each and nothing else.
#[tokio::test]
async fn followers_of_a_dead_head_stay_quiet() {
    const FOLLOWERS: u32 = 10;
    let server = RedisServer::start();
    let config = quick(RedisConfig::single(server.url()));
    let lock = connect(config.clone()).await.fair_lock("a");
    let held = lock.acquire().await.unwrap();
    let mut head = Child::play("wait", &server.url());
    in_line(&lock, 1).await;
    let mut followers = tokio::task::JoinSet::new();
    for number in 0..FOLLOWERS {
        let follower = connect(config.clone()).await.fair_lock("a");
        followers.spawn(async move {
            let held = follower.acquire().await.unwrap();
            std::future::pending::<()>().await;
            drop(held);
        });
        in_line(&lock, u64::from(number) + 2).await;
    }
    head.process.kill();
    held.release().await.unwrap();
    let (start, before) = (Instant::now(), server.client_calls());
    // The head was called, is dead, and nobody else has been: the lock is free, and they wait.
    while lock.waiting().await.unwrap() >= u64::from(FOLLOWERS) {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let (elapsed, calls) = (start.elapsed(), server.client_calls() - before);
    let beats = elapsed.as_secs_f64() / HEARTBEAT.as_secs_f64() + 1.0;
    // Each follower's heartbeat and sign of presence, this test's own looking, and the claim.
    let bound = beats * f64::from(FOLLOWERS) * 2.0 + elapsed.as_secs_f64() * 10.0 + 10.0;
    assert!((calls as f64) < bound, "{calls} commands in {elapsed:?}, expected fewer than {bound}");
    assert!(calls > 0, "nothing was measured");
}

/// (7) A holder that is frozen past its lease: its write is refused by the token, and its guard says that it was lost.
#[tokio::test]
async fn a_frozen_holder_is_fenced_off_and_told() {
    let server = RedisServer::start();
    let holder = Child::play("hold", &server.url());
    let stale: u64 = holder.says_after("held").parse().unwrap();
    let mut resource = Fenced::default();
    assert!(resource.write(stale));
    holder.process.stop();
    let lock = connect(quick(RedisConfig::single(server.url()))).await.fair_lock("a");
    let held = timeout(LONG, lock.acquire()).await.expect("the lease of the frozen one ends").unwrap();
    assert!(resource.write(held.fencing_token()));
    holder.process.go_on();
    let (holder, late) = holder.hears("lost").await;
    assert!(!resource.write(late.parse().unwrap()), "the late write is refused");
    assert_eq!(late.parse(), Ok(stale));
    // The control: a resource that does not look at tokens would have taken it.
    assert_eq!(resource.refused, 1);
    assert_eq!(holder.says(), "released false");
    held.release().await.expect("the late release did not touch it");
}

/// A waiter that was frozen when its turn came is passed by, and has its place back when it wakes.
#[tokio::test]
async fn a_frozen_waiter_has_its_place_back() {
    let server = RedisServer::start();
    let config = quick(RedisConfig::single(server.url()));
    let client = connect(config.clone()).await;
    let lock = client.fair_lock("a");
    let held = lock.acquire().await.unwrap();
    let frozen = Child::play("wait", &server.url());
    assert_eq!(frozen.says(), "asking");
    in_line(&lock, 1).await;
    let second = connect(config).await.fair_lock("a");
    let second = tokio::spawn(async move { second.acquire().await });
    in_line(&lock, 2).await;
    frozen.process.stop();
    held.release().await.unwrap();
    let second = timeout(LONG, second).await.expect("the frozen one is passed by").unwrap().unwrap();
    let third = lock.clone();
    let third = tokio::spawn(async move { third.acquire().await });
    in_line(&lock, 1).await;
    frozen.process.go_on();
    in_line(&lock, 2).await;
    second.release().await.unwrap();
    let third = timeout(LONG, third).await.expect("everybody is served").unwrap().unwrap();
    let (_frozen, token) = frozen.hears("granted").await;
    assert!(token.parse::<u64>().unwrap() < third.fencing_token(), "it was served first");
}

/// Permits of a killed holder come back with its lease.
#[tokio::test]
async fn permits_of_a_killed_holder_come_back() {
    let server = RedisServer::start();
    let mut holder = Child::play("hold-permits", &server.url());
    holder.says_after("held");
    holder.process.kill();
    let semaphore = connect(quick(RedisConfig::single(server.url()))).await.semaphore("a", 5);
    timeout(LONG, semaphore.acquire(5)).await.expect("the lease ends").unwrap().release().await.unwrap();
}

/// A program whose only worker is busy for many leases keeps what it holds: renewal has a thread of its own.
#[tokio::test]
async fn a_busy_program_keeps_its_lease() {
    let server = RedisServer::start();
    let client = connect(quick(RedisConfig::single(server.url()))).await;
    let lease = Lease::Renewing(Duration::from_millis(1500));
    let held = client.fair_lock("a").with_lease(lease).acquire().await.unwrap();
    // Not a wait for something: the thread is to be blocked, and this is what blocks it.
    std::thread::sleep(Duration::from_secs(4));
    assert!(!held.is_lost());
    held.release().await.expect("it was renewed all the time");
}

/// A Redis that hangs: every call ends in time with a clear error, and works again afterwards.
#[tokio::test]
async fn a_frozen_redis_pins_nobody() {
    let server = RedisServer::start();
    let config =
        RedisConfig::single(server.url()).with_call_timeout(Duration::from_millis(250)).with_attempts(2);
    let client = connect(config).await;
    let limiter = client.rate_limiter("a", 1, Duration::from_secs(60));
    server.stop();
    let start = Instant::now();
    let (fair, unfair) = (client.fair_lock("a"), client.lock("a"));
    let calls = tokio::join!(fair.acquire(), unfair.acquire(), limiter.check());
    assert!(calls.0.is_err() && calls.1.is_err() && calls.2.is_err());
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    server.go_on();
    client.flush().await.expect("what may have been granted meanwhile is given back");
    fair.try_acquire(Duration::from_secs(5)).await.expect("free").release().await.unwrap();
    unfair.try_acquire(Duration::from_secs(5)).await.expect("free").release().await.unwrap();
}
