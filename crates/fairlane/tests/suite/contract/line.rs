//! Standing in line for a fair lock: order, places, cancellation.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use fairlane::{Error, FairLock, Lease, Ticket};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::world::{LONG, World, drop_after_polls};

crate::behaviours!(
    first_come_first_served,
    a_timeout_and_a_retry_keep_the_place,
    an_absent_ticket_is_dropped_after_its_grace,
    a_ticket_can_be_resumed_elsewhere,
    the_position_can_be_asked,
    a_thousand_waiters_without_inversion,
    nobody_is_evicted_during_a_hold_of_many_leases,
    a_dropped_future_leaves_nothing_behind,
);

async fn waiting(lock: &FairLock, count: u64) {
    let reached = async {
        let mut looks = 0;
        while lock.waiting().await.unwrap() != count {
            looks += 1;
            if looks < 10 { tokio::task::yield_now().await } else { sleep(Duration::from_millis(1)).await }
        }
    };
    timeout(LONG, reached).await.unwrap_or_else(|_| panic!("never {count} in line"));
}

async fn times_out(lock: &FairLock, wait: Duration) -> Ticket {
    match lock.try_acquire(wait).await {
        Err(Error::TimedOut { ticket: Some(ticket), .. }) => ticket,
        other => panic!("expected a ticket, got {other:?}"),
    }
}

async fn first_come_first_served(world: World) {
    let lock = world.client().await.fair_lock("a");
    let held = lock.acquire().await.unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = JoinSet::new();
    for number in 0..20_u64 {
        // Each from a client of its own, so that nothing but Redis can know the order.
        let (waiter, order) = (world.client().await.fair_lock("a"), Arc::clone(&order));
        tasks.spawn(async move {
            let held = waiter.acquire().await.unwrap();
            order.lock().unwrap().push(number);
            held.release().await.unwrap();
        });
        waiting(&lock, number + 1).await;
    }
    held.release().await.unwrap();
    tasks.join_all().await;
    assert_eq!(*order.lock().unwrap(), (0..20).collect::<Vec<_>>());
}

/// (1) A waiter that times out and comes back is served before everybody who came after it.
async fn a_timeout_and_a_retry_keep_the_place(world: World) {
    let client = world.client().await;
    let lock = client.fair_lock("a");
    let held = lock.acquire().await.unwrap();
    let ticket = times_out(&lock, Duration::from_millis(20)).await;
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = JoinSet::new();
    let (later, seen) = (lock.clone(), Arc::clone(&order));
    tasks.spawn(async move {
        let held = later.acquire().await.unwrap();
        seen.lock().unwrap().push("later");
        held.release().await.unwrap();
    });
    waiting(&lock, 1).await;
    // Times out once more, still without losing the place.
    assert!(matches!(lock.resume(&ticket, Duration::from_millis(20)).await, Err(Error::TimedOut { .. })));
    let (first, seen) = (lock.clone(), Arc::clone(&order));
    tasks.spawn(async move {
        let held = first.resume(&ticket, LONG).await.unwrap();
        seen.lock().unwrap().push("first");
        held.release().await.unwrap();
    });
    waiting(&lock, 2).await;
    held.release().await.unwrap();
    tasks.join_all().await;
    assert_eq!(*order.lock().unwrap(), ["first", "later"]);
}

/// (1) Nobody has to wait for somebody who does not come back, and the place is not kept for ever.
async fn an_absent_ticket_is_dropped_after_its_grace(world: World) {
    let lock = world.client().await.fair_lock("a").with_grace(Duration::from_millis(200));
    let held = lock.acquire().await.unwrap();
    let ticket = times_out(&lock, Duration::from_millis(10)).await;
    assert!(lock.position(&ticket).await.unwrap().is_some());
    held.release().await.unwrap();
    timeout(LONG, lock.acquire())
        .await
        .expect("others pass an absent ticket")
        .unwrap()
        .release()
        .await
        .unwrap();
    sleep(Duration::from_millis(400)).await;
    assert!(matches!(lock.resume(&ticket, LONG).await, Err(Error::TicketExpired { .. })));
    assert!(lock.position(&ticket).await.unwrap().is_none());
}

async fn a_ticket_can_be_resumed_elsewhere(world: World) {
    let lock = world.client().await.fair_lock("a");
    let held = lock.acquire().await.unwrap();
    let text = times_out(&lock, Duration::from_millis(10)).await.to_string();
    let elsewhere = world.client().await.fair_lock("a");
    held.release().await.unwrap();
    let ticket = text.parse().unwrap();
    elsewhere.resume(&ticket, LONG).await.unwrap().release().await.unwrap();
    assert!(
        matches!(lock.resume(&ticket, LONG).await, Err(Error::TicketExpired { .. })),
        "a ticket is good for once"
    );

    let held = lock.acquire().await.unwrap();
    let ticket = times_out(&lock, Duration::from_millis(10)).await;
    lock.give_up(&ticket);
    world.client().await.flush().await.unwrap();
    let gone = async {
        while lock.position(&ticket).await.unwrap().is_some() {
            sleep(Duration::from_millis(2)).await;
        }
    };
    timeout(LONG, gone).await.expect("a place can be given up");
    held.release().await.unwrap();
}

async fn the_position_can_be_asked(world: World) {
    let lock = world.client().await.fair_lock("a");
    let held = lock.acquire().await.unwrap();
    let mut tasks = JoinSet::new();
    for number in 0..3 {
        let waiter = lock.clone();
        tasks.spawn(async move { waiter.acquire().await.unwrap().release().await.unwrap() });
        waiting(&lock, number + 1).await;
    }
    let ticket = times_out(&lock, Duration::from_millis(20)).await;
    let position = lock.position(&ticket).await.unwrap().expect("it is in line");
    assert_eq!((position.ahead, position.waiting, position.number), (3, 3, ticket.number()));
    held.release().await.unwrap();
    tasks.join_all().await;
    assert_eq!(lock.position(&ticket).await.unwrap().expect("the grace is not over").ahead, 0);
}

/// (2) Of a thousand, a quarter gives up, a quarter times out and comes back, and the rest waits: all who are left are
/// served in the order in which they came.
async fn a_thousand_waiters_without_inversion(world: World) {
    let client = world.client().await;
    let lock = client.fair_lock("a").with_grace(Duration::from_secs(60));
    let held = lock.acquire().await.unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = JoinSet::new();
    let mut doomed = Vec::new();
    for number in 0..1000_u64 {
        let (waiter, order) = (lock.clone(), Arc::clone(&order));
        let handle = tasks.spawn(async move {
            let held = if number % 4 == 1 {
                let ticket = times_out(&waiter, Duration::from_millis(500 + number % 250)).await;
                waiter.resume(&ticket, LONG).await.unwrap()
            } else {
                waiter.try_acquire(LONG).await.unwrap()
            };
            order.lock().unwrap().push(number);
            held.release().await.unwrap();
        });
        if number % 4 == 2 {
            doomed.push(handle);
        }
        // Requests that are under way together may overtake each other on the way; these do not.
        waiting(&lock, number + 1).await;
    }
    for task in &doomed {
        task.abort();
    }
    client.flush().await.unwrap();
    // Until all that time out have done so, and are back.
    sleep(Duration::from_millis(1500)).await;
    waiting(&lock, 750).await;
    held.release().await.unwrap();
    while let Some(ended) = tasks.join_next().await {
        assert!(ended.is_ok() || ended.unwrap_err().is_cancelled());
    }
    assert_eq!(lock.waiting().await.unwrap(), 0);
    let order = order.lock().unwrap();
    assert_eq!(order.len(), 750);
    assert!(order.is_sorted(), "{order:?}");
}

/// (4) However long the lock is held, those in line stay in line, in order.
async fn nobody_is_evicted_during_a_hold_of_many_leases(world: World) {
    let lock = world.client().await.fair_lock("a").with_lease(Lease::Renewing(Duration::from_millis(1500)));
    let held = lock.acquire().await.unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = JoinSet::new();
    for number in 0..5 {
        let (waiter, order) = (world.client().await.fair_lock("a"), Arc::clone(&order));
        tasks.spawn(async move {
            let held = waiter.acquire().await.unwrap();
            order.lock().unwrap().push(number);
            held.release().await.unwrap();
        });
        waiting(&lock, number + 1).await;
    }
    for _ in 0..10 {
        sleep(Duration::from_millis(750)).await;
        assert!(!held.is_lost());
        assert_eq!(lock.waiting().await.unwrap(), 5);
    }
    held.release().await.unwrap();
    tasks.join_all().await;
    assert_eq!(*order.lock().unwrap(), [0, 1, 2, 3, 4]);
}

/// (5) Whatever future is dropped, wherever it stands: nobody is left in line and nothing is left held.
async fn a_dropped_future_leaves_nothing_behind(world: World) {
    let client = world.client().await;
    let lock = client.fair_lock("a");
    let wait = Duration::from_millis(5);
    for polls in 0..8 {
        // Free, so that it may be granted in the very moment it is dropped.
        drop(drop_after_polls(lock.acquire(), polls).await);
        drop(drop_after_polls(client.lock("a").acquire(), polls).await);
        drop(drop_after_polls(client.semaphore("a", 3).acquire(3), polls).await);
        drop(drop_after_polls(client.multi_lock(["a", "b"]).acquire(), polls).await);
        client.flush().await.unwrap();
        all_free(&client).await;

        // Taken, so that it waits, times out, and comes back.
        let held = client.multi_lock(["a", "b"]).acquire().await.unwrap();
        let permits = client.semaphore("a", 3).acquire(3).await.unwrap();
        let unfair = client.lock("a").acquire().await.unwrap();
        drop(drop_after_polls(lock.acquire(), polls).await);
        drop(drop_after_polls(client.lock("a").acquire(), polls).await);
        drop(drop_after_polls(client.semaphore("a", 3).acquire(1), polls).await);
        drop(drop_after_polls(client.multi_lock(["b", "c"]).acquire(), polls).await);
        if let Some(Err(Error::TimedOut { ticket: Some(ticket), .. })) =
            drop_after_polls(lock.try_acquire(wait), polls).await
        {
            drop(drop_after_polls(lock.resume(&ticket, LONG), polls).await);
            lock.give_up(&ticket);
        }
        client.flush().await.unwrap();
        assert_eq!(lock.waiting().await.unwrap(), 0, "after {polls} polls");
        // Releasing may be dropped half-way, too.
        drop_after_polls(held.release(), polls).await;
        drop_after_polls(permits.release(), polls).await;
        drop_after_polls(unfair.release(), polls).await;
        client.flush().await.unwrap();
        all_free(&client).await;
    }
    // The control: what is not dropped stays, and is seen to stay.
    std::mem::forget(lock.acquire().await.unwrap());
    client.flush().await.unwrap();
    assert!(matches!(lock.try_acquire(Duration::ZERO).await, Err(Error::Busy { .. })));
}

async fn all_free(client: &fairlane::Client) {
    assert_eq!(client.fair_lock("a").waiting().await.unwrap(), 0);
    assert_eq!(client.semaphore("a", 3).waiting().await.unwrap(), 0);
    let now = Duration::ZERO;
    client.multi_lock(["a", "b", "c"]).try_acquire(now).await.expect("free").release().await.unwrap();
    client.semaphore("a", 3).try_acquire(3, now).await.expect("free").release().await.unwrap();
    client.lock("a").try_acquire(now).await.expect("free").release().await.unwrap();
}
