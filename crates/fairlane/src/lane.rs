//! The lane: a line of people in front of one thing, run by one runner at a time, a batch at a time.
//!
//! Whoever wants something enters the lane of its key and holds nothing while waiting. A runner takes the lane, draws
//! everybody who stands there up to a bound, does the whole batch in one go, and gives the lane back. While one batch is
//! being done the next one forms by itself: an idle lane serves one person at once, a crowded one serves hundreds
//! together, and there is no timer to tune.
//!
//! # Guarantee
//!
//! * **Order.** Numbers grow by one in order of entry. Batches of one lane are drawn in that order and never overlap.
//! * **Two sides.** [`Side::Owner`] is for people who already hold what others wait for: they are drawn first, in their
//!   own order, and nobody from [`Side::Guest`] is drawn while one of them is left behind.
//! * **Fair between lanes.** A lane that has more to do goes behind all others that are ready.
//! * **Bounded.** Past the bound a guest is told [`Refused::Full`] and takes no place.
//!
//! # Cost
//!
//! Entering, leaving and asking for the position take O(log n) at most, whatever the length of the line.
//!
//! # Failure
//!
//! A runner that panics or is dropped gives the lane back; what it had drawn is dropped with it, so what stands in the
//! line should tell its owner when it is dropped. Nothing here survives the process.

use std::time::Duration;

pub use crate::memory::lane::{Lanes, Turn};

/// Which side of a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Those who hold a place already and want to keep, change or return it.
    Owner,
    /// Those who want one.
    Guest,
}

/// How much a set of lanes takes.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Guests waiting in one lane.
    pub lane: usize,
    /// Guests waiting in all lanes together.
    pub total: usize,
    /// What one draw takes at most.
    pub batch: usize,
}

/// Why nobody could enter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The line is as long as it may be: come back in a while.
    #[error("the line is full")]
    Full {
        /// How many wait in it.
        waiting: usize,
    },
    /// The lanes are shutting down.
    #[error("the lanes are closed")]
    Closed,
}

/// Where somebody stands.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Position {
    /// How many guests are ahead, those being decided just now included.
    pub ahead: usize,
    /// How many guests wait in all.
    pub waiting: usize,
    /// The measured pace of the line, in people a second; `None` until something was decided.
    pub pace: Option<f64>,
}

impl Position {
    /// How long it should take until this place has been served, at the pace measured so far.
    pub fn expected_wait(&self) -> Option<Duration> {
        let pace = self.pace.filter(|pace| *pace > 0.0)?;
        // Counts of people are far below 2^52, where floats are exact.
        #[expect(clippy::cast_precision_loss, reason = "a line is shorter than 2^52")]
        let people = (self.ahead + 1) as f64;
        Duration::try_from_secs_f64(people / pace).ok()
    }
}
