//! Replies that get lost, so that requests are sent again.
//!
//! What the proxy threw away may not have reached the server, so faults are counted at the server: executions beyond
//! what was asked for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use fairlane::{Client, RedisConfig};
use testkit::{Proxy, RedisServer};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::world::{connect, quick};

const AT_ONCE: u32 = 512;
const PATIENCE: Duration = Duration::from_secs(150);

struct Lossy {
    server: RedisServer,
    proxy: Proxy,
    client: Client,
}

/// Every other burst of requests is delivered and its replies thrown away.
async fn lossy() -> Lossy {
    let server = RedisServer::start();
    let proxy = Proxy::to(server.port());
    let client = connect(quick(RedisConfig::single(proxy.url())).with_attempts(1000)).await;
    proxy.lose_replies_every(2);
    Lossy { server, proxy, client }
}

/// (10) A hundred thousand requests reach the rate limiter a second time because their reply was lost: every pass is
/// counted once, so quota is neither lost nor doubled.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn quota_is_conserved_over_a_hundred_thousand_lost_replies() {
    const FAULTS: u64 = 100_000;
    let Lossy { server, proxy, client } = lossy().await;
    let (asked, over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let mut tasks = JoinSet::new();
    for _ in 0..AT_ONCE {
        let limiter = client.rate_limiter("quota", 10_000_000, Duration::from_secs(3600));
        let (asked, over) = (Arc::clone(&asked), Arc::clone(&over));
        tasks.spawn(async move {
            while !over.load(Ordering::Relaxed) {
                // Counted before it is sent: what is executed beyond this was certainly sent again.
                asked.fetch_add(1, Ordering::SeqCst);
                assert!(limiter.check().await.unwrap().is_granted());
            }
        });
    }
    let enough = async {
        while server.calls("evalsha").saturating_sub(asked.load(Ordering::SeqCst)) < FAULTS {
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(PATIENCE, enough).await.expect("the faults happen in time");
    over.store(true, Ordering::Relaxed);
    proxy.lose_replies_every(0);
    timeout(PATIENCE, tasks.join_all()).await.expect("everybody is answered in the end");
    let (asked, executed) = (asked.load(Ordering::SeqCst), server.calls("evalsha"));
    assert!(
        executed >= asked + FAULTS,
        "{executed} executed of {asked} asked: too few faults to show anything"
    );
    let counted = server.command(&["ZCARD", "fairlane:rate:{quota}"]).number();
    assert_eq!(u64::try_from(counted), Ok(asked));
}

/// (10) The same with locks and permits: granted once, given back once, and never reported as lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acquire_and_release_act_once() {
    const LOST: u64 = 20_000;
    let Lossy { server, proxy, client } = lossy().await;
    let proxy = Arc::new(proxy);
    let mut tasks = JoinSet::new();
    for task in 0..AT_ONCE {
        let (client, proxy) = (client.clone(), Arc::clone(&proxy));
        tasks.spawn(async move {
            let (fair, unfair) = (client.fair_lock(&format!("{task}")), client.lock(&format!("{task}")));
            let semaphore = client.semaphore("permits", AT_ONCE);
            while proxy.replies_lost() < LOST {
                fair.try_acquire(Duration::ZERO).await.expect("nobody else uses it").release().await.unwrap();
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
    let used = server.command(&["HGET", "fairlane:sem:{permits}", "us"]).number();
    assert_eq!(used, 0, "every permit was given back exactly once");
    let all = client.semaphore("permits", AT_ONCE).try_acquire(AT_ONCE, Duration::ZERO).await;
    all.expect("all permits are there").release().await.unwrap();
}
