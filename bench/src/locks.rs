//! fairlane doing what [`RedissonMeasure`](crate::spring::RedissonMeasure) does, in the same words.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fairlane::{Client, RedisConfig};
use tokio::task::JoinSet;

use crate::Result;

/// Something to measure.
#[derive(Debug, Clone, Copy)]
pub enum Measurement {
    /// So many tasks, each on a fair lock of its own.
    FairLock(u32),
    /// One fair lock with so many always in line.
    HandOver(u32),
    /// So many tasks on so many permits.
    Semaphore(u32, u32),
    /// So many tasks on one limiter that never refuses.
    RateLimiter(u32),
}

impl Measurement {
    /// As the Java class is told it.
    pub fn command(self, seconds: f64) -> String {
        match self {
            Self::FairLock(tasks) => format!("fair-lock {tasks} {seconds}"),
            Self::HandOver(waiters) => format!("hand-over {waiters} {seconds}"),
            Self::Semaphore(tasks, permits) => format!("semaphore {tasks} {permits} {seconds}"),
            Self::RateLimiter(tasks) => format!("rate-limiter {tasks} {seconds}"),
        }
    }

    /// Operations a second, over one client.
    pub async fn run(self, redis: &str, seconds: f64) -> Result<f64> {
        // As patient as Redisson is set: a crowd is slow, not broken.
        let config = RedisConfig::single(redis).with_call_timeout(Duration::from_secs(20));
        let client = Client::redis(config).await?;
        let time = Duration::from_secs_f64(seconds);
        let rate = match self {
            Self::HandOver(waiters) => hand_over(&client, waiters, time).await?,
            _ => self.repeated(&client, time).await?,
        };
        client.flush().await?;
        Ok(rate)
    }

    async fn once(self, client: &Client, task: u32) -> std::result::Result<(), fairlane::Error> {
        match self {
            Self::FairLock(_) => client.fair_lock(&format!("key:{task}")).acquire().await?.release().await,
            Self::HandOver(_) => client.fair_lock("hot").acquire().await?.release().await,
            Self::Semaphore(_, permits) => {
                client.semaphore("permits", permits).acquire(1).await?.release().await
            }
            Self::RateLimiter(_) => {
                let pass = client.rate_limiter("rate", 1_000_000, Duration::from_secs(1)).check().await?;
                debug_assert!(pass.is_granted(), "nothing comes near a million a second");
                Ok(())
            }
        }
    }

    /// So many tasks that do the same again and again, for so long.
    async fn repeated(self, client: &Client, time: Duration) -> Result<f64> {
        let (Self::FairLock(tasks)
        | Self::HandOver(tasks)
        | Self::Semaphore(tasks, _)
        | Self::RateLimiter(tasks)) = self;
        let (over, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let mut running = self.start(client, tasks, &over, &done);
        let start = Instant::now();
        tokio::time::sleep(time).await;
        let rate = done.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64();
        over.store(true, Ordering::Relaxed);
        while let Some(outcome) = running.join_next().await {
            outcome??;
        }
        Ok(rate)
    }

    fn start(
        self,
        client: &Client,
        tasks: u32,
        over: &Arc<AtomicBool>,
        done: &Arc<AtomicU64>,
    ) -> JoinSet<std::result::Result<(), fairlane::Error>> {
        let mut running = JoinSet::new();
        for task in 0..tasks {
            let (client, over, done) = (client.clone(), Arc::clone(over), Arc::clone(done));
            running.spawn(async move {
                while !over.load(Ordering::Relaxed) {
                    self.once(&client, task).await?;
                    done.fetch_add(1, Ordering::Relaxed);
                }
                Ok(())
            });
        }
        running
    }
}

/// Hands one lock over again and again, with always as many in line: whoever had it goes to its end.
async fn hand_over(client: &Client, waiters: u32, time: Duration) -> Result<f64> {
    let lock = client.fair_lock("hot");
    let first = lock.acquire().await?;
    let (over, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let mut running = Measurement::HandOver(waiters).start(client, waiters, &over, &done);
    while lock.waiting().await? < u64::from(waiters) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let start = Instant::now();
    first.release().await?;
    tokio::time::sleep(time).await;
    let rate = done.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64();
    over.store(true, Ordering::Relaxed);
    running.abort_all();
    while let Some(outcome) = running.join_next().await {
        // Told to stop is what we asked for; anything else is a measurement that was not made.
        if let Ok(failed) = outcome {
            failed?;
        }
    }
    Ok(rate)
}
