//! At most so many in any window.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use fairlane::{Error, Pass};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::world::{LONG, World, drop_after_polls};

crate::behaviours!(
    ten_of_a_hundred_pass,
    no_window_has_more,
    waiters_pass_in_order,
    a_refusal_says_when,
    a_waiter_that_leaves_costs_nothing,
);

const WINDOW: Duration = Duration::from_millis(500);

async fn ten_of_a_hundred_pass(world: World) {
    let limiter = world.client().await.rate_limiter("a", 10, Duration::from_secs(30));
    let mut tasks = JoinSet::new();
    for _ in 0..100 {
        let limiter = limiter.clone();
        tasks.spawn(async move { limiter.check().await.unwrap().is_granted() });
    }
    assert_eq!(tasks.join_all().await.into_iter().filter(|passed| *passed).count(), 10);
    assert!(matches!(world.client().await.rate_limiter("", 1, WINDOW).check().await, Err(Error::EmptyKey)));
}

async fn no_window_has_more(world: World) {
    let clients = [world.client().await, world.client().await];
    let mut tasks = JoinSet::new();
    for number in 0..35_usize {
        let limiter = clients[number % 2].rate_limiter("a", 5, WINDOW);
        tasks.spawn(async move {
            match limiter.acquire(LONG).await.unwrap() {
                Pass::Granted { at_micros } => at_micros,
                Pass::Limited { retry_after } => panic!("{retry_after:?}"),
            }
        });
    }
    let mut times = tasks.join_all().await;
    times.sort_unstable();
    assert_at_most(&times, 5, WINDOW);
}

/// No window of this length holds more than `limit` of `times`.
pub(crate) fn assert_at_most(times: &[u64], limit: usize, window: Duration) {
    for pair in times.windows(limit + 1) {
        let span = pair[limit] - pair[0];
        assert!(u128::from(span) >= window.as_micros(), "{} passed within {span} µs", limit + 1);
    }
}

async fn waiters_pass_in_order(world: World) {
    let client = world.client().await;
    // A server that does not know the script yet would be sent it once more, behind the others.
    assert!(client.rate_limiter("another", 1, WINDOW).check().await.unwrap().is_granted());
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = JoinSet::new();
    for number in 0..12 {
        let (limiter, order) = (client.rate_limiter("a", 3, WINDOW), Arc::clone(&order));
        tasks.spawn(async move {
            let Pass::Granted { at_micros } = limiter.acquire(LONG).await.unwrap() else { panic!("limited") };
            order.lock().unwrap().push((at_micros / 100_000, number / 3));
        });
    }
    tasks.join_all().await;
    let mut order = order.lock().unwrap();
    order.sort_unstable();
    let groups: Vec<_> = order.iter().map(|(_, group)| *group).collect();
    assert!(groups.is_sorted(), "{groups:?}");
}

async fn a_refusal_says_when(world: World) {
    let limiter = world.client().await.rate_limiter("a", 2, WINDOW);
    assert!(limiter.check().await.unwrap().is_granted() && limiter.check().await.unwrap().is_granted());
    let Pass::Limited { retry_after } = limiter.check().await.unwrap() else { panic!("three of two passed") };
    assert!(retry_after <= WINDOW);
    // Too little patience is refused at once, with the same answer.
    let Pass::Limited { .. } = limiter.acquire(Duration::from_millis(1)).await.unwrap() else {
        panic!("passed")
    };
    sleep(retry_after + Duration::from_millis(5)).await;
    assert!(limiter.check().await.unwrap().is_granted(), "after as long as was said there is room");
}

async fn a_waiter_that_leaves_costs_nothing(world: World) {
    let client = world.client().await;
    let limiter = client.rate_limiter("a", 1, WINDOW);
    assert!(limiter.check().await.unwrap().is_granted());
    for polls in 1..4 {
        drop(drop_after_polls(limiter.acquire(LONG), polls).await);
    }
    client.flush().await.unwrap();
    let Pass::Limited { retry_after } = limiter.check().await.unwrap() else { panic!("passed") };
    assert!(retry_after <= WINDOW, "nobody is in front any more: {retry_after:?}");
}
