//! Everything at once: whatever people do, nobody is let in who should not be, and in the end the books balance.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use fairlane::{Client, Error, Held, Semaphore, Ticket};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::world::{LONG, World, drop_after_polls};

crate::behaviours!(the_books_balance);

const CAPACITY: u32 = 3;

/// A small generator, so that a failing run can be repeated.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }

    fn moment(&mut self) -> Duration {
        Duration::from_millis(self.roll(8))
    }
}

async fn the_books_balance(world: World) {
    let clients = [world.client().await, world.client().await, world.client().await];
    let inside = Arc::new(AtomicU32::new(0));
    let mut tasks = JoinSet::new();
    for (client, seed) in clients.iter().cycle().zip(1..=24) {
        let (client, inside) = (client.clone(), Arc::clone(&inside));
        tasks.spawn(async move {
            let mut dice = Dice(seed);
            for _ in 0..40 {
                one_visit(&client, &mut dice, &inside).await;
            }
        });
    }
    timeout(LONG, tasks.join_all()).await.expect("nobody waits for ever");
    for client in &clients {
        client.flush().await.unwrap();
    }
    // Leases that ran out meanwhile are short; all else was given back.
    for name in ["kept", "timed"] {
        let semaphore = clients[0].semaphore(name, CAPACITY);
        let all = timeout(LONG, semaphore.acquire(CAPACITY)).await.expect("all permits are there");
        all.unwrap().release().await.unwrap();
        assert_eq!(semaphore.waiting().await.unwrap(), 0);
    }
}

async fn one_visit(client: &Client, dice: &mut Dice, inside: &AtomicU32) {
    let permits = 1 + u32::from(dice.roll(4) == 0);
    if dice.roll(5) == 0 {
        // Held for longer than the lease, as often as not.
        let timed = client.semaphore("timed", CAPACITY).with_lease(Duration::from_millis(1 + dice.roll(10)));
        if let Ok(held) = timed.try_acquire(permits, dice.moment()).await {
            sleep(dice.moment()).await;
            let _ = held.release().await;
        }
        return;
    }
    let semaphore = client.semaphore("kept", CAPACITY).with_grace(Duration::from_millis(50));
    let outcome = match dice.roll(4) {
        0 => semaphore.try_acquire(permits, Duration::ZERO).await,
        1 => match drop_after_polls(semaphore.acquire(permits), 1 + usize::from(dice.roll(3) == 0)).await {
            Some(outcome) => outcome,
            None => return,
        },
        _ => semaphore.try_acquire(permits, dice.moment() + Duration::from_millis(1)).await,
    };
    match outcome {
        Ok(held) => stay(held, dice, inside).await,
        Err(Error::TimedOut { ticket: Some(ticket), .. }) => {
            come_back(&semaphore, &ticket, permits, dice, inside).await
        }
        Err(Error::Busy { .. } | Error::TimedOut { .. }) => {}
        Err(other) => panic!("{other:?}"),
    }
}

/// Some come back with their ticket, some too late, some never.
async fn come_back(
    semaphore: &Semaphore,
    ticket: &Ticket,
    permits: u32,
    dice: &mut Dice,
    inside: &AtomicU32,
) {
    if dice.roll(3) == 0 {
        return;
    }
    sleep(dice.moment() * 10).await;
    match semaphore.resume(ticket, permits, dice.moment() * 5).await {
        Ok(held) => stay(held, dice, inside).await,
        Err(Error::TimedOut { .. } | Error::TicketExpired { .. }) => {}
        Err(other) => panic!("{other:?}"),
    }
}

async fn stay(held: Held, dice: &mut Dice, inside: &AtomicU32) {
    let permits = held.permits();
    let now_inside = inside.fetch_add(permits, Ordering::SeqCst) + permits;
    assert!(now_inside <= CAPACITY, "{now_inside} permits are out");
    sleep(dice.moment()).await;
    inside.fetch_sub(permits, Ordering::SeqCst);
    if dice.roll(3) == 0 { drop(held) } else { held.release().await.unwrap() }
}
