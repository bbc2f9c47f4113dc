//! The clock, read only at the edges. Tests set it; everything else is told the time.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use jiff::Timestamp;

/// Where the time comes from.
#[derive(Debug, Clone, Default)]
pub enum Clock {
    /// The machine's clock, which is also the database's while that runs inside this process.
    #[default]
    System,
    /// A clock that somebody else turns, in milliseconds since 1970.
    Set(Arc<AtomicI64>),
}

impl Clock {
    /// Now, to the millisecond: as exact as what is stored.
    pub fn now(&self) -> Timestamp {
        let millis = match self {
            Self::System => Timestamp::now().as_millisecond(),
            Self::Set(millis) => millis.load(Ordering::SeqCst),
        };
        Timestamp::from_millisecond(millis).unwrap_or_default()
    }
}
