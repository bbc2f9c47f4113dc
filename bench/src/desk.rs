//! maitred's desk in this process, over PostgreSQL and Redis: everything but HTTP.

use std::sync::Arc;
use std::time::{Duration, Instant};

use booking::PersonId;
use fairlane::lane::Bounds;
use fairlane::{Client, RedisConfig};
use maitred::admission::Keys;
use maitred::clock::Clock;
use maitred::desk::{Answer, Desk, Limits, Wish};
use maitred::venues::Venues;
use store::Store;
use tokio::task::JoinHandle;

use crate::Result;
use crate::rows::{book, scattered};
use crate::served::slot;
use crate::world::{ENDLESS, World};

/// The product's default for one slot; all of them together are bounded by the same here, there being only one.
const BOUND: usize = 200_000;
/// How long anybody waits in line.
const PATIENCE: Duration = Duration::from_secs(60);

/// A desk in front of a new database with one slot that never sells out.
pub struct OpenDesk {
    desk: Arc<Desk>,
    runners: Vec<JoinHandle<()>>,
    store: Arc<Store>,
}

impl OpenDesk {
    /// Opens one that decides so many people together at most.
    pub async fn over(world: &World, store: Store, batch: usize) -> Result<Self> {
        let store = Arc::new(store);
        let venues = Arc::new(Venues::new(store.clone()));
        let limits = Limits { bounds: Bounds { lane: BOUND, total: BOUND, batch }, runners: 4 };
        let redis = Client::redis(RedisConfig::single(world.redis.url()).with_prefix("maitred")).await?;
        let lanes = Some(redis.lanes("lane"));
        let keys = Arc::new(Keys::default());
        let (desk, runners) = Desk::open(store.clone(), venues, keys, Clock::System, limits, lanes).await?;
        Ok(Self { desk, runners, store })
    }

    /// What guests enter.
    pub fn line(&self) -> Line {
        Line { desk: self.desk.clone() }
    }

    /// Closes it; everybody who was answered must be stored, or the figure means nothing.
    pub async fn close(self, asked: u64, answered: u64) -> Result<()> {
        self.desk.close(Duration::from_secs(5)).await;
        for runner in self.runners {
            runner.await?;
        }
        let stored = self.store.slot(slot()?).await?.holders().count() as u64;
        self.store.close();
        if answered == asked && stored == asked {
            return Ok(());
        }
        Err(format!("{asked} asked, {answered} were answered, {stored} are stored").into())
    }
}

/// The line in front of the slot.
#[derive(Clone)]
pub struct Line {
    desk: Arc<Desk>,
}

impl Line {
    /// Stands in line as this guest until there is an answer; whether there was one.
    pub async fn book(&self, guest: u64, entered: impl FnOnce()) -> Result<bool> {
        let (slot, person, action) = (slot()?, PersonId(scattered(guest)), book(guest));
        let ticket = self.desk.enter(Wish { slot, person, action, key: None, rate: None }).await?;
        entered();
        ticket.wait(PATIENCE).await;
        // Whoever is let go because the store is slow keeps the place, and gets the answer.
        let end = Instant::now() + PATIENCE;
        while ticket.answer().is_none() && Instant::now() < end {
            ticket.changed_within(Duration::from_secs(1)).await;
        }
        Ok(matches!(ticket.answer(), Some(Answer::Decided(_))))
    }
}

/// Reservations a second of so many people, with so many of them in line at any time.
pub fn throughput(world: &World, batch: usize, people: u64, in_line: u64) -> Result<f64> {
    let (_, store) = world.database(ENDLESS)?;
    world.runtime.block_on(async {
        let open = OpenDesk::over(world, store, batch).await?;
        let start = Instant::now();
        let line = open.line();
        let seated = seat(people, in_line, move |guest| {
            let line = line.clone();
            async move { line.book(guest, || ()).await }
        });
        let seated = seated.await?;
        let took = start.elapsed();
        open.close(people, seated).await?;
        Ok(people as f64 / took.as_secs_f64())
    })
}

/// Lets so many people book, with so many of them in line at any time; how many were seated.
pub async fn seat<B>(
    people: u64,
    in_line: u64,
    book: impl Fn(u64) -> B + Clone + Send + 'static,
) -> Result<u64>
where
    B: Future<Output = Result<bool>> + Send,
{
    let guests: Vec<_> = (0..in_line)
        .map(|first| {
            let book = book.clone();
            tokio::spawn(async move {
                let mut seated = 0_u64;
                for guest in (first..people).step_by(usize::try_from(in_line).unwrap_or(1)) {
                    seated += u64::from(book(guest).await?);
                }
                Result::Ok(seated)
            })
        })
        .collect();
    let mut seated = 0;
    for guest in guests {
        seated += guest.await??;
    }
    Ok(seated)
}
