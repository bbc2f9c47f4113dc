//! Several locks as one.

use std::time::Duration;

use fairlane::Error;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::world::{LONG, World};

crate::behaviours!(
    all_or_none,
    opposite_orders_do_not_deadlock,
    keys_are_trimmed_and_not_repeated,
    the_first_loss_is_told
);

async fn all_or_none(world: World) {
    let client = world.client().await;
    let held = client.fair_lock("b").acquire().await.unwrap();
    let busy = client.multi_lock(["c", "b", "a"]).try_acquire(Duration::ZERO).await.unwrap_err();
    assert!(matches!(busy, Error::Busy { key } if key == "b"));
    let late = client.multi_lock(["c", "b", "a"]).try_acquire(Duration::from_millis(20)).await.unwrap_err();
    assert!(matches!(late, Error::TimedOut { key, ticket: None } if key == "b"));
    client.flush().await.unwrap();
    for free in ["a", "c"] {
        client
            .fair_lock(free)
            .try_acquire(Duration::ZERO)
            .await
            .expect("given back")
            .release()
            .await
            .unwrap();
    }
    held.release().await.unwrap();
    let all = client.multi_lock(["c", "b", "a"]).try_acquire(Duration::ZERO).await.unwrap();
    assert_eq!(all.each().iter().map(|held| held.key()).collect::<Vec<_>>(), ["a", "b", "c"]);
    all.release().await.unwrap();
}

async fn opposite_orders_do_not_deadlock(world: World) {
    let mut tasks = JoinSet::new();
    for round in 0..20 {
        let client = world.client().await;
        let keys = if round % 2 == 0 { ["a", "b", "c"] } else { ["c", "b", "a"] };
        tasks.spawn(async move { client.multi_lock(keys).acquire().await.unwrap().release().await.unwrap() });
    }
    timeout(LONG, tasks.join_all()).await.expect("nobody waits for each other");

    // The control: in the order given, two of them do wait for each other.
    let (one, other) = (world.client().await, world.client().await);
    let (a, b) = (one.fair_lock("a").acquire().await.unwrap(), other.fair_lock("b").acquire().await.unwrap());
    let wait = Duration::from_millis(200);
    let (one, other) = (one.fair_lock("b"), other.fair_lock("a"));
    let (one, other) = tokio::join!(one.try_acquire(wait), other.try_acquire(wait));
    assert!(one.is_err() && other.is_err());
    drop((a, b));
}

async fn keys_are_trimmed_and_not_repeated(world: World) {
    let client = world.client().await;
    let held = client.multi_lock([" b ", "a", "b", "a "]).acquire().await.unwrap();
    assert_eq!(held.each().iter().map(|held| held.key()).collect::<Vec<_>>(), ["a", "b"]);
    held.release().await.unwrap();
    assert_eq!(client.multi_lock(["b", "a"]).in_given_order().keys().unwrap(), ["b", "a"]);
    assert!(matches!(client.multi_lock(Vec::<String>::new()).acquire().await, Err(Error::NoKeys)));
    assert!(matches!(client.multi_lock(["a", " "]).acquire().await, Err(Error::EmptyKey)));
}

async fn the_first_loss_is_told(world: World) {
    let client = world.client().await;
    let held = client.multi_lock(["a", "b"]).with_lease(Duration::from_millis(100)).acquire().await.unwrap();
    assert!(!held.is_lost());
    timeout(LONG, held.lost()).await.expect("it is told");
    assert!(held.is_lost());
    assert!(matches!(held.release().await, Err(Error::Lost { .. })));
}
