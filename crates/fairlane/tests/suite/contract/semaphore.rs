//! Permits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use fairlane::Error;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::world::{LONG, World};

crate::behaviours!(
    never_more_than_there_are,
    a_large_request_is_not_starved,
    permits_expire_with_their_owner,
    impossible_requests_are_refused,
    a_ticket_keeps_its_place,
);

async fn never_more_than_there_are(world: World) {
    let clients = [world.client().await, world.client().await];
    let most_inside = async |guarded: bool| {
        let (inside, most) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let mut tasks = JoinSet::new();
        for number in 0..60_usize {
            let semaphore = clients[number % 2].semaphore("a", 4);
            let (inside, most) = (Arc::clone(&inside), Arc::clone(&most));
            tasks.spawn(async move {
                let permits = 1 + u32::from(number % 3 == 0);
                let held = if guarded { Some(semaphore.acquire(permits).await.unwrap()) } else { None };
                most.fetch_max(inside.fetch_add(permits, Ordering::SeqCst) + permits, Ordering::SeqCst);
                sleep(Duration::from_millis(2)).await;
                inside.fetch_sub(permits, Ordering::SeqCst);
                if let Some(held) = held {
                    held.release().await.unwrap();
                }
            });
        }
        timeout(LONG, tasks.join_all()).await.expect("everybody is served");
        most.load(Ordering::SeqCst)
    };
    assert_eq!(most_inside(true).await, 4, "all permits were used, and no more");
    assert!(most_inside(false).await > 4, "without the semaphore there are more, or this shows nothing");
}

async fn a_large_request_is_not_starved(world: World) {
    let client = world.client().await;
    let done = Arc::new(AtomicBool::new(false));
    let mut stream = JoinSet::new();
    for _ in 0..8 {
        let (semaphore, done) = (client.semaphore("a", 5), Arc::clone(&done));
        stream.spawn(async move {
            // As soon as one permit is back the next is asked for: five are never free by themselves.
            while !done.load(Ordering::Relaxed) {
                let held = semaphore.acquire(1).await.unwrap();
                sleep(Duration::from_millis(1)).await;
                held.release().await.unwrap();
            }
        });
    }
    let all = timeout(LONG, client.semaphore("a", 5).acquire(5)).await.expect("nobody overtakes it").unwrap();
    assert_eq!(all.permits(), 5);
    all.release().await.unwrap();
    done.store(true, Ordering::Relaxed);
    stream.join_all().await;
}

async fn permits_expire_with_their_owner(world: World) {
    let semaphore = world.client().await.semaphore("a", 2).with_lease(Duration::from_millis(200));
    let dead = semaphore.acquire(2).await.unwrap();
    std::mem::forget(dead);
    timeout(LONG, semaphore.acquire(2)).await.expect("they come back").unwrap().release().await.unwrap();
}

async fn impossible_requests_are_refused(world: World) {
    let semaphore = world.client().await.semaphore("a", 2);
    let refused = semaphore.acquire(3).await.unwrap_err();
    assert!(matches!(refused, Error::TooManyPermits { asked: 3, capacity: 2, .. }));
    let _all = semaphore.acquire(2).await.unwrap();
    assert!(matches!(semaphore.try_acquire(1, Duration::ZERO).await, Err(Error::Busy { .. })));
}

async fn a_ticket_keeps_its_place(world: World) {
    let semaphore = world.client().await.semaphore("a", 2);
    let held = semaphore.acquire(2).await.unwrap();
    let Err(Error::TimedOut { ticket: Some(ticket), .. }) =
        semaphore.try_acquire(2, Duration::from_millis(10)).await
    else {
        panic!("expected a ticket")
    };
    assert_eq!(semaphore.position(&ticket).await.unwrap().unwrap().ahead, 0);
    held.release().await.unwrap();
    semaphore.resume(&ticket, 2, LONG).await.unwrap().release().await.unwrap();
}
