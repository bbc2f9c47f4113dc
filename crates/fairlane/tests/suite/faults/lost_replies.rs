//! Replies that get lost, so that requests are sent again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fairlane::RedisConfig;
use testkit::{Proxy, RedisServer};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::world::{connect, quick};

const FAULTS: u64 = 100_000;
const AT_ONCE: usize = 512;
const PATIENCE: Duration = Duration::from_secs(150);

/// (10) A hundred thousand replies are lost and the requests sent again: every pass is counted once, every lock and
/// permit is granted once and given back once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_reply_acts_once() {
    let server = RedisServer::start();
    let proxy = Arc::new(Proxy::to(server.port()));
    let client = connect(quick(RedisConfig::single(proxy.url())).with_attempts(1000)).await;
    let passed = Arc::new(AtomicU64::new(0));
    // Every other burst of requests is delivered and its replies thrown away.
    proxy.lose_replies_every(2);
    let mut tasks = JoinSet::new();
    for task in 0..AT_ONCE {
        let (client, proxy, passed) = (client.clone(), Arc::clone(&proxy), Arc::clone(&passed));
        tasks.spawn(async move {
            let limiter = client.rate_limiter("quota", 10_000_000, Duration::from_secs(3600));
            let lock = client.fair_lock(&format!("lock:{task}"));
            let unfair = client.lock(&format!("lock:{task}"));
            let semaphore = client.semaphore("permits", u32::try_from(AT_ONCE).unwrap());
            while proxy.replies_lost() < FAULTS {
                for _ in 0..4 {
                    assert!(limiter.check().await.unwrap().is_granted());
                    passed.fetch_add(1, Ordering::Relaxed);
                }
                lock.try_acquire(Duration::ZERO).await.expect("nobody else uses it").release().await.unwrap();
                unfair
                    .try_acquire(Duration::ZERO)
                    .await
                    .expect("nobody else uses it")
                    .release()
                    .await
                    .unwrap();
                semaphore
                    .try_acquire(1, Duration::ZERO)
                    .await
                    .expect("one for each")
                    .release()
                    .await
                    .unwrap();
            }
        });
    }
    timeout(PATIENCE, tasks.join_all()).await.expect("the faults happen in time");
    proxy.lose_replies_every(0);
    assert!(proxy.replies_lost() >= FAULTS);
    // The control: the server has executed more than was asked for, so requests did arrive twice.
    let asked = passed.load(Ordering::Relaxed) / 4 * 10;
    let executed = server.calls("evalsha");
    assert!(executed > asked + FAULTS / 2, "{executed} executed, {asked} asked for");
    let counted = server.command(&["ZCARD", "fairlane:rate:{quota}"]).number();
    assert_eq!(
        u64::try_from(counted),
        Ok(passed.load(Ordering::Relaxed)),
        "quota is neither lost nor doubled"
    );
    let used = server.command(&["HGET", "fairlane:sem:{permits}", "us"]).number();
    assert_eq!(used, 0, "every permit was given back exactly once");
    let all = client.semaphore("permits", u32::try_from(AT_ONCE).unwrap());
    all.try_acquire(u32::try_from(AT_ONCE).unwrap(), Duration::ZERO).await.unwrap().release().await.unwrap();
}
