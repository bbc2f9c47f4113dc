//! What can go wrong, by what the caller can do about it. Constraints of the database are named here and nowhere else.

use std::sync::Arc;

use booking::TicketId;

/// The database did not do it.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// It is busy, full, or gone: try again. Whether a commit took place is unknown; look the ticket up.
    #[error("the database is not available: {0}")]
    Unavailable(#[source] Arc<dyn std::error::Error + Send + Sync>),
    /// It refuses what it was told to write, and would refuse it again: the caller has a fault.
    #[error("the database refuses this: {0}")]
    Refused(#[source] Arc<dyn std::error::Error + Send + Sync>),
    /// What it holds makes no sense to this version.
    #[error("the database holds something unreadable in {what}")]
    Unreadable {
        /// Where.
        what: &'static str,
    },
    /// The store has been closed.
    #[error("the store is closed")]
    Closed,
}

impl Error {
    pub(crate) fn unavailable(cause: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self::Unavailable(Arc::new(cause))
    }
}

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(rusqlite::ErrorCode::ConstraintViolation) => Self::Refused(Arc::new(error)),
            _ => Self::unavailable(error),
        }
    }
}

/// Why a batch was not stored. Nothing of it was.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CommitError {
    /// The slot or the venue has moved on since the batch was decided: read it again, decide again.
    #[error("the slot has changed since the batch was decided")]
    Stale,
    /// The wallet cannot bear what this ticket wants: decide again with it refused.
    #[error("the wallet of {0:?} cannot bear it")]
    Short(TicketId),
    /// The key of this ticket belongs to another one already: leave it out, and answer it from that one.
    #[error("the key of {0:?} is used already")]
    KeyUsed(TicketId),
    /// This ticket was decided before: leave it out, and answer it from the log.
    #[error("{0:?} has been decided already")]
    Decided(TicketId),
    /// The database did not do it.
    #[error(transparent)]
    Store(#[from] Error),
}

impl From<rusqlite::Error> for CommitError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Store(error.into())
    }
}

/// The unique constraint that a statement violated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unique {
    PlaceOfPerson,
    PartyOfTable,
    ReservationOfTicket,
    RequestKey,
    Email,
    ChargeKey,
}

impl Unique {
    /// SQLite names the columns of the index, not the index.
    const COLUMNS: [(&'static str, Unique); 6] = [
        ("reservation.slot_id, reservation.person", Unique::PlaceOfPerson),
        ("reservation.slot_id, reservation.table_no", Unique::PartyOfTable),
        ("reservation.ticket", Unique::ReservationOfTicket),
        ("request_key.person, request_key.key", Unique::RequestKey),
        ("account.email", Unique::Email),
        ("wallet_entry.person, wallet_entry.key", Unique::ChargeKey),
    ];

    pub(crate) fn violated(error: &rusqlite::Error) -> Option<Self> {
        let rusqlite::Error::SqliteFailure(failure, Some(message)) = error else { return None };
        if failure.code != rusqlite::ErrorCode::ConstraintViolation {
            return None;
        }
        let columns = message.strip_prefix("UNIQUE constraint failed: ")?;
        Self::COLUMNS.iter().find(|(names, _)| *names == columns).map(|(_, unique)| *unique)
    }
}
