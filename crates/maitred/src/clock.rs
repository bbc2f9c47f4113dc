//! The clock, read only at the edges. Tests set it; everything else is told the time.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Instant;

use jiff::Timestamp;
use store::{Error, Store};

/// An answer about the time that takes longer than this, in milliseconds, is not believed.
const QUICK: i64 = 1_000;

/// Where the time comes from.
#[derive(Debug, Clone, Default)]
pub enum Clock {
    /// The machine's clock, which is also the database's while that runs inside this process.
    #[default]
    System,
    /// The clock of a database that several processes share: what it showed, in milliseconds since 1970, when this process
    /// first looked at a clock, carried on by monotonic time. The machine's own clock may jump; holds must not end with it.
    Database(Arc<AtomicI64>),
    /// A clock that somebody else turns, in milliseconds since 1970.
    Set(Arc<AtomicI64>),
}

/// Milliseconds since this process first asked, whatever becomes of the machine's clock.
fn elapsed() -> i64 {
    static FIRST: LazyLock<Instant> = LazyLock::new(Instant::now);
    i64::try_from(FIRST.elapsed().as_millis()).unwrap_or(i64::MAX)
}

impl Clock {
    /// Looks again what the database's clock shows.
    pub async fn follow(&self, store: &Store) -> Result<(), Error> {
        let Self::Database(first) = self else { return Ok(()) };
        let before = elapsed();
        let theirs = store.clock().await?.as_millisecond();
        let after = elapsed();
        // An answer that was long on its way tells nothing better than what is known, if anything is.
        if after - before <= QUICK || first.load(Ordering::Relaxed) == 0 {
            first.store(theirs - i64::midpoint(before, after), Ordering::Relaxed);
        }
        Ok(())
    }

    /// Now, to the millisecond: as exact as what is stored.
    pub fn now(&self) -> Timestamp {
        let millis = match self {
            Self::System => Timestamp::now().as_millisecond(),
            Self::Database(first) => first.load(Ordering::Relaxed) + elapsed(),
            Self::Set(millis) => millis.load(Ordering::SeqCst),
        };
        Timestamp::from_millisecond(millis).unwrap_or_default()
    }
}
