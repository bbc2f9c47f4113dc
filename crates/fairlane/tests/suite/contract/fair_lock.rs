//! Holding a fair lock: leases, tokens, errors.

use std::time::Duration;

use fairlane::{Error, Lease};
use tokio::time::timeout;

use crate::world::{LONG, World};

crate::behaviours!(
    one_holder_at_a_time,
    busy_and_timed_out_are_different,
    a_key_must_say_something,
    tokens_only_grow,
    a_fixed_lease_ends,
    a_renewing_lease_outlives_its_length,
    releasing_after_the_end_is_an_error,
    dropping_gives_back,
    names_with_braces_are_names,
);

async fn one_holder_at_a_time(world: World) {
    let client = world.client().await;
    let held = client.fair_lock("a").acquire().await.unwrap();
    assert_eq!((held.key(), held.permits()), ("a", 1));
    assert!(matches!(client.fair_lock("a").try_acquire(Duration::ZERO).await, Err(Error::Busy { .. })));
    client.fair_lock("b").try_acquire(Duration::ZERO).await.unwrap().release().await.unwrap();
    held.release().await.unwrap();
    client.fair_lock("a").try_acquire(Duration::ZERO).await.unwrap().release().await.unwrap();
}

async fn busy_and_timed_out_are_different(world: World) {
    let lock = world.client().await.fair_lock("a");
    let _held = lock.acquire().await.unwrap();
    let busy = lock.try_acquire(Duration::ZERO).await.unwrap_err();
    assert!(matches!(&busy, Error::Busy { key } if key == "a"), "{busy:?}");
    let late = lock.try_acquire(Duration::from_millis(20)).await.unwrap_err();
    assert!(matches!(&late, Error::TimedOut { key, ticket: Some(_) } if key == "a"), "{late:?}");
    let late = lock.with_grace(Duration::ZERO).try_acquire(Duration::from_millis(20)).await.unwrap_err();
    assert!(matches!(&late, Error::TimedOut { ticket: None, .. }), "{late:?}");
}

async fn a_key_must_say_something(world: World) {
    let client = world.client().await;
    for name in ["", "  ", "\t"] {
        assert!(matches!(client.fair_lock(name).acquire().await, Err(Error::EmptyKey)));
    }
}

async fn tokens_only_grow(world: World) {
    let (one, other) = (world.client().await, world.client().await);
    let mut last = 0;
    for client in [&one, &other, &one, &other] {
        let held = client.fair_lock("a").acquire().await.unwrap();
        assert!(held.fencing_token() > last);
        last = held.fencing_token();
        held.release().await.unwrap();
    }
}

async fn a_fixed_lease_ends(world: World) {
    let lock = world.client().await.fair_lock("a").with_lease(Duration::from_millis(300));
    let first = lock.acquire().await.unwrap();
    assert_eq!(first.lease(), Lease::Fixed(Duration::from_millis(300)));
    assert!(!first.is_lost());
    let second = timeout(LONG, lock.acquire()).await.expect("the lease ends").unwrap();
    timeout(LONG, first.lost()).await.expect("the holder is told");
    assert!(first.is_lost());
    assert!(second.fencing_token() > first.fencing_token());
}

async fn a_renewing_lease_outlives_its_length(world: World) {
    let client = world.client().await;
    let held = client
        .fair_lock("a")
        .with_lease(Lease::Renewing(Duration::from_millis(1500)))
        .acquire()
        .await
        .unwrap();
    let other = world.client().await.fair_lock("a").with_grace(Duration::ZERO);
    assert!(matches!(other.try_acquire(Duration::from_millis(3500)).await, Err(Error::TimedOut { .. })));
    assert!(!held.is_lost());
    held.release().await.unwrap();
}

async fn releasing_after_the_end_is_an_error(world: World) {
    let client = world.client().await;
    let lock = client.fair_lock("a").with_lease(Duration::from_millis(50));
    let nobody_came = lock.acquire().await.unwrap();
    nobody_came.lost().await;
    assert!(matches!(nobody_came.release().await, Err(Error::Lost { .. })));

    let overtaken = lock.acquire().await.unwrap();
    let next = client.fair_lock("a").acquire().await.unwrap();
    assert!(matches!(overtaken.release().await, Err(Error::Lost { .. })));
    next.release().await.expect("a late release does not touch the next holder");
}

async fn dropping_gives_back(world: World) {
    let client = world.client().await;
    drop(client.fair_lock("a").acquire().await.unwrap());
    client.flush().await.unwrap();
    client
        .fair_lock("a")
        .try_acquire(Duration::ZERO)
        .await
        .expect("it was given back")
        .release()
        .await
        .unwrap();
}

async fn names_with_braces_are_names(world: World) {
    let client = world.client().await;
    let names = ["}x", "{x", "{x}y", "x%7D", "x}"];
    let mut held = Vec::new();
    for name in names {
        held.push(client.fair_lock(name).try_acquire(Duration::ZERO).await.unwrap());
    }
    for held in held {
        held.release().await.unwrap();
    }
}
