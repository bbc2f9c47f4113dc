//! Whether a long line costs more than a short one: processor time for each reservation against people in line.
//!
//! The line is kept full: whoever has an answer is followed by somebody new. What is counted lies between two moments at
//! which everybody is in line, and begins when the slot has the same number of reservations whatever the length of the line,
//! so that only the line differs. The time is that of this program (guests and desk), Redis and PostgreSQL together.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::desk::OpenDesk;
use crate::world::{ENDLESS, World};
use crate::{Result, machine};

/// Lengths of the line.
pub const LENGTHS: [u64; 4] = [100, 1_000, 10_000, 100_000];
/// Reservations in the slot before anything is counted: as many as are made while 100,000 people enter.
const BEFORE: u64 = 60_000;
/// Reservations that are counted.
const COUNTED: u64 = 40_000;
/// People who are decided together at most: the product's default.
const BATCH: usize = 1_024;
/// How long either part may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a reservation cost, in µs of processor time.
#[derive(Debug, Clone, Copy)]
pub struct Cost {
    /// Everywhere together.
    pub total: f64,
    /// In this program.
    pub desk: f64,
    /// In Redis.
    pub redis: f64,
    /// In PostgreSQL.
    pub postgres: f64,
    /// Reservations a second meanwhile.
    pub pace: f64,
}

#[derive(Default)]
struct Counts {
    guests: AtomicU64,
    entered: AtomicU64,
    answered: AtomicU64,
    lost: AtomicU64,
    over: AtomicBool,
}

/// The cost of each reservation with so many in line.
pub fn cost(world: &World, in_line: u64) -> Result<Cost> {
    let (_, store) = world.database(ENDLESS)?;
    world.runtime.block_on(async {
        let open = OpenDesk::over(world, store, BATCH).await?;
        let counts = Arc::new(Counts::default());
        let guests: Vec<_> = (0..in_line)
            .map(|_| {
                let (line, counts) = (open.line(), counts.clone());
                tokio::spawn(async move {
                    while !counts.over.load(Ordering::Relaxed) {
                        let guest = counts.guests.fetch_add(1, Ordering::Relaxed);
                        let entered = || _ = counts.entered.fetch_add(1, Ordering::Relaxed);
                        let decided = line.book(guest, entered).await?;
                        let count = if decided { &counts.answered } else { &counts.lost };
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                    Result::Ok(())
                })
            })
            .collect();
        until("the line was not full in time", || counts.entered.load(Ordering::Relaxed) >= in_line).await?;
        until("the slot was not filled in time", || counts.answered.load(Ordering::Relaxed) >= BEFORE)
            .await?;
        let (first, before, start) = (counts.answered.load(Ordering::Relaxed), used(world)?, Instant::now());
        let done = || counts.answered.load(Ordering::Relaxed) >= first + COUNTED;
        until("what is counted was not decided in time", done).await?;
        let (last, after, took) = (counts.answered.load(Ordering::Relaxed), used(world)?, start.elapsed());
        counts.over.store(true, Ordering::Relaxed);
        for guest in guests {
            guest.await??;
        }
        let asked = counts.guests.load(Ordering::Relaxed);
        open.close(asked, counts.answered.load(Ordering::Relaxed)).await?;
        let made = (last - first) as f64;
        let [desk, redis, postgres] =
            [0, 1, 2].map(|part| (after[part] - before[part]).as_secs_f64() * 1e6 / made);
        Ok(Cost { total: desk + redis + postgres, desk, redis, postgres, pace: made / took.as_secs_f64() })
    })
}

async fn until(otherwise: &str, reached: impl Fn() -> bool) -> Result<()> {
    let end = Instant::now() + PATIENCE;
    while !reached() {
        if Instant::now() > end {
            return Err(otherwise.into());
        }
        sleep(Duration::from_millis(2)).await;
    }
    Ok(())
}

/// Processor time so far: of this program, of Redis, of PostgreSQL with all its processes.
fn used(world: &World) -> Result<[Duration; 3]> {
    let postgres = machine::with_children(world.postgres.id())?.into_iter().map(machine::processor_time);
    Ok([
        machine::processor_time(std::process::id())?,
        machine::processor_time(world.redis.id())?,
        postgres.sum::<Result<_>>()?,
    ])
}
