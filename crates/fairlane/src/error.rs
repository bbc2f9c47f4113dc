//! What can go wrong, named by what the caller can do about it.

use crate::Ticket;

/// Why a lock, permit or pass was not given, or not given back.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Taken by somebody else, and the caller asked not to wait. Tell the user, or try with a wait.
    #[error("`{key}` is taken, and the call does not wait")]
    Busy {
        /// What is taken.
        key: String,
    },
    /// The turn did not come in time. With a ticket the place is kept for the grace: resume with it.
    #[error("the turn for `{key}` did not come within the wait")]
    TimedOut {
        /// What was waited for.
        key: String,
        /// The place in line, where the primitive keeps one.
        ticket: Option<Ticket>,
    },
    /// The lease ran out, or Redis forgot it, before it was released: somebody else may hold it now. Whatever was
    /// done under it counts only as far as the fencing token was checked.
    #[error("the lease on `{key}` was lost before it was released")]
    Lost {
        /// What was held.
        key: String,
    },
    /// The ticket left the line: its grace passed, it was given up, or it belongs to another line. Enter anew.
    #[error("the ticket for `{key}` is no longer in line")]
    TicketExpired {
        /// The line that was asked.
        key: String,
    },
    /// The text is not a ticket.
    #[error("this is not a ticket")]
    BadTicket,
    /// A key is empty or blank: almost always a missing argument.
    #[error("a key to lock is empty or blank")]
    EmptyKey,
    /// No key at all: the collection of keys was empty.
    #[error("there is no key to lock")]
    NoKeys,
    /// More permits than there are; waiting would never end.
    #[error("{asked} permits were asked of `{key}`, which has {capacity}")]
    TooManyPermits {
        /// The semaphore.
        key: String,
        /// Permits asked for.
        asked: u32,
        /// Permits there are.
        capacity: u32,
    },
    /// The line has reached its bound. Come back later.
    #[error("the line for `{key}` is full")]
    LineFull {
        /// The line that is full.
        key: String,
    },
    /// Redis did not answer in time, after reconnecting and resending. Nothing is known to have been granted, and
    /// what may have been is given back in the background.
    #[error("Redis did not answer")]
    Unavailable {
        /// The last error.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

pub(crate) type Result<T> = std::result::Result<T, Error>;
