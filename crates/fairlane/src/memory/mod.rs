//! The backend in this process's memory.
//!
//! Nobody can die here without being dropped, so there are no heartbeats, and a self-renewing lease simply does not
//! end. One mutex per kind of thing, held for a few tree operations and never across an await.

mod guard;
pub(crate) mod lane;
pub mod lanes;
mod line;
mod lock;
mod queue;
mod rate_limiter;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

use crate::Lease;
use crate::error::Result;
use crate::lease::Grip;
use queue::Line;

#[derive(Debug)]
pub(crate) struct Memory {
    clock: Clock,
    lines: Mutex<HashMap<Arc<str>, Line>>,
    locks: Mutex<HashMap<Arc<str>, lock::Entry>>,
    rates: Mutex<HashMap<Arc<str>, rate_limiter::Window>>,
    claims: Mutex<HashMap<Arc<str>, guard::Entry>>,
}

impl Memory {
    pub(crate) fn new() -> Self {
        Self {
            clock: Clock::new(),
            lines: Mutex::default(),
            locks: Mutex::default(),
            rates: Mutex::default(),
            claims: Mutex::default(),
        }
    }

    /// Grants that are not renewed need no keeper.
    pub(crate) fn keep(&self, _: &Arc<Grip>) {}

    pub(crate) fn let_go(&self, _: &Arc<Grip>) {}

    pub(crate) async fn flush(&self) -> Result<()> {
        Ok(())
    }
}

fn open<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing in here panics half-way through a change, so a poisoned map is still a sound one.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// When a grant made now ends.
fn end_of(lease: Lease, now: Instant) -> Option<Instant> {
    match lease {
        Lease::Renewing(_) => None,
        Lease::Fixed(length) => now.checked_add(length),
    }
}

/// Monotonic time, and fencing tokens that are at least the time in µs: a process that starts again gives out higher
/// ones than its predecessor, unless the machine's clock was set back in between.
#[derive(Debug)]
struct Clock {
    start: Instant,
    start_micros: u64,
    last_token: Mutex<u64>,
}

impl Clock {
    fn new() -> Self {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Self { start: Instant::now(), start_micros: micros(since_epoch), last_token: Mutex::new(0) }
    }

    fn micros_at(&self, at: Instant) -> u64 {
        self.start_micros + micros(at.saturating_duration_since(self.start))
    }

    fn token(&self, now: Instant) -> u64 {
        let mut last = open(&self.last_token);
        *last = self.micros_at(now).max(*last + 1);
        *last
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
