//! Renewal against release, closer together than any timer would bring them.

use std::sync::Arc;
use std::time::Duration;

use testkit::RedisServer;
use tokio::task::JoinSet;

use super::Shared;
use crate::backend::Backend;
use crate::lease::Grip;
use crate::{Client, Held, RedisConfig};

const RACES: usize = 100_000;
const AT_ONCE: usize = 200;

fn shared(client: &Client) -> Arc<Shared> {
    match client.backend() {
        Backend::Redis(redis) => Arc::clone(&redis.shared),
        Backend::Memory(_) => unreachable!("this client is one over Redis"),
    }
}

fn grip(held: &Held, shared: &Shared) -> Arc<Grip> {
    let grips = shared.kept.open();
    let (grip, _) = grips.values().find(|(grip, _)| grip.token == held.fencing_token()).expect("it is kept");
    Arc::clone(grip)
}

/// (9) A renewal that is under way when the lock is released never brings it back: a hundred thousand times, the lock is
/// free at once for the next, and in the end nothing is held.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_renewed_after_release() {
    let server = RedisServer::start();
    let client = Client::redis(RedisConfig::single(server.url())).await.unwrap();
    // Over a connection of its own, so that nothing but the server puts the two in order.
    let renewer = Client::redis(RedisConfig::single(server.url())).await.unwrap();
    let (shared, renewer) = (shared(&client), shared(&renewer));
    let mut tasks = JoinSet::new();
    for task in 0..AT_ONCE {
        let (client, shared, renewer) = (client.clone(), Arc::clone(&shared), Arc::clone(&renewer));
        tasks.spawn(async move {
            let (fair, unfair) = (client.fair_lock(&format!("{task}")), client.lock(&format!("{task}")));
            for round in 0..RACES / AT_ONCE {
                let held = if round % 2 == 0 {
                    fair.try_acquire(Duration::ZERO).await.expect("the last release has freed it")
                } else {
                    unfair.try_acquire(Duration::ZERO).await.expect("the last release has freed it")
                };
                let grip = grip(&held, &shared);
                let ((), released) = match round % 4 {
                    0 | 1 => tokio::join!(renewer.renew_one(grip), held.release()),
                    _ => {
                        let (released, ()) = tokio::join!(held.release(), renewer.renew_one(grip));
                        ((), released)
                    }
                };
                released.expect("it was held");
            }
        });
    }
    tasks.join_all().await;
    assert!(server.calls("evalsha") >= 3 * RACES as u64, "the races did not take place");
    let keys = server.command(&["KEYS", "*:held"]).to_string();
    assert_eq!(keys, "", "something is still held");
    for key in server.command(&["KEYS", "fairlane:lock:*"]).to_string().lines() {
        assert_eq!(server.command(&["HEXISTS", key, "o"]).number(), 0, "{key} is still held");
    }
    assert!(shared.kept.open().is_empty());

    // The control: a renewal that may put back what is gone does bring it back, and that is seen.
    let lock = client.fair_lock("control");
    let grip = grip(&lock.acquire().await.unwrap(), &shared);
    client.flush().await.unwrap();
    server.command(&["DEL", "fairlane:fair:{control}"]);
    shared.renew_grip(&grip, Duration::from_secs(30), true).await.unwrap();
    assert!(lock.try_acquire(Duration::ZERO).await.is_err());
}
