//! The clock, read only at the edges. Tests set it; everything else is told the time.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

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
    /// The clock of a database that several processes share: this machine's, set right by so many milliseconds.
    Database(Arc<AtomicI64>),
    /// A clock that somebody else turns, in milliseconds since 1970.
    Set(Arc<AtomicI64>),
}

impl Clock {
    /// Looks again how far the database's clock is ahead of this machine's.
    pub async fn follow(&self, store: &Store) -> Result<(), Error> {
        let Self::Database(ahead) = self else { return Ok(()) };
        let before = Timestamp::now().as_millisecond();
        let theirs = store.clock().await?.as_millisecond();
        let after = Timestamp::now().as_millisecond();
        // An answer that was long on its way tells nothing better than what is known.
        if after - before <= QUICK {
            ahead.store(theirs - i64::midpoint(before, after), Ordering::Relaxed);
        }
        Ok(())
    }

    /// Now, to the millisecond: as exact as what is stored.
    pub fn now(&self) -> Timestamp {
        let millis = match self {
            Self::System => Timestamp::now().as_millisecond(),
            Self::Database(ahead) => Timestamp::now().as_millisecond() + ahead.load(Ordering::Relaxed),
            Self::Set(millis) => millis.load(Ordering::SeqCst),
        };
        Timestamp::from_millisecond(millis).unwrap_or_default()
    }
}
