//! The unfair lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use fairlane::{Error, Lease};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::world::{LONG, World};

crate::behaviours!(
    one_of_many_wins,
    waiting_is_possible,
    the_lease_ends,
    a_renewing_lease_is_renewed,
    tokens_only_grow
);

/// C6: wait 0, lease 3 s; of a hundred at once exactly one wins and the others are refused at once.
async fn one_of_many_wins(world: World) {
    let wins = Arc::new(AtomicU32::new(0));
    let client = world.client().await;
    let mut tasks = JoinSet::new();
    for _ in 0..100 {
        let (lock, wins) = (client.lock("seat").with_lease(Duration::from_secs(3)), Arc::clone(&wins));
        tasks.spawn(async move {
            match lock.try_acquire(Duration::ZERO).await {
                Ok(held) => {
                    wins.fetch_add(1, Ordering::Relaxed);
                    Some(held)
                }
                Err(Error::Busy { .. }) => None,
                Err(other) => panic!("{other:?}"),
            }
        });
    }
    let kept = tasks.join_all().await;
    assert_eq!(wins.load(Ordering::Relaxed), 1);
    drop(kept);
}

async fn waiting_is_possible(world: World) {
    let lock = world.client().await.lock("a");
    let held = lock.acquire().await.unwrap();
    assert!(matches!(
        lock.try_acquire(Duration::from_millis(30)).await,
        Err(Error::TimedOut { ticket: None, .. })
    ));
    let (waiter, _) = tokio::join!(timeout(LONG, lock.acquire()), held.release());
    waiter.expect("it becomes free").unwrap().release().await.unwrap();
    assert!(matches!(world.client().await.lock(" ").acquire().await, Err(Error::EmptyKey)));
}

async fn the_lease_ends(world: World) {
    let lock = world.client().await.lock("a").with_lease(Duration::from_millis(100));
    let first = lock.acquire().await.unwrap();
    let second = timeout(LONG, lock.acquire()).await.expect("the lease ends").unwrap();
    assert!(first.is_lost());
    assert!(matches!(first.release().await, Err(Error::Lost { .. })));
    drop(second);
}

async fn a_renewing_lease_is_renewed(world: World) {
    let lock = world.client().await.lock("a").with_lease(Lease::Renewing(Duration::from_millis(1500)));
    let held = lock.acquire().await.unwrap();
    assert!(matches!(lock.try_acquire(Duration::from_millis(3500)).await, Err(Error::TimedOut { .. })));
    held.release().await.expect("it was renewed");
}

async fn tokens_only_grow(world: World) {
    let mut last = 0;
    for _ in 0..5 {
        let held = world.client().await.lock("a").acquire().await.unwrap();
        assert!(held.fencing_token() > last);
        last = held.fencing_token();
        held.release().await.unwrap();
    }
}
