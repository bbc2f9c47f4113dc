//! What can go wrong, by what the caller can do about it. Constraints of the database are named here and nowhere else.

use std::sync::Arc;

use booking::TicketId;
use tokio_postgres::error::SqlState;

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
    /// The server is not one to keep the truth on, for this reason: change its settings.
    #[error("the database server is not fit for this: {0}")]
    Unfit(&'static str),
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
        use rusqlite::Error::{FromSqlConversionFailure, IntegralValueOutOfRange, InvalidColumnType};
        match error {
            // Reading it again gives the same.
            FromSqlConversionFailure(..) | IntegralValueOutOfRange(..) | InvalidColumnType(..) => {
                Self::Unreadable { what: "a row" }
            }
            error if error.sqlite_error_code() == Some(rusqlite::ErrorCode::ConstraintViolation) => {
                Self::Refused(Arc::new(error))
            }
            error => Self::unavailable(error),
        }
    }
}

/// Why a batch was not stored. Nothing of it was, except that an unavailable database may have done it all the same.
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
    /// What this ticket would make is there already, made for another one: decide again with that known.
    #[error("what {0:?} makes is there already")]
    Made(TicketId),
    /// The database did not do it.
    #[error(transparent)]
    Store(#[from] Error),
}

impl From<rusqlite::Error> for CommitError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Store(error.into())
    }
}

/// An exchange with a PostgreSQL server that did not end well.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failed {
    /// The server said so, or the connection to it was lost.
    #[error(transparent)]
    Server(tokio_postgres::Error),
    /// It did not answer in time.
    #[error("the server did not answer in time")]
    Late,
    /// There was no connection.
    #[error(transparent)]
    Store(#[from] Error),
}

/// Reasons of our own for which a transaction ends itself: SQLSTATEs that PostgreSQL leaves to its users.
pub(crate) mod reason {
    /// The slot or the venue is not at the version from which a batch was decided.
    pub(crate) const STALE: &str = "MD001";
    /// A wallet cannot bear a movement; the detail is the ticket that asked for it.
    pub(crate) const SHORT: &str = "MD002";
}

impl Failed {
    fn code(&self) -> Option<&SqlState> {
        match self {
            Self::Server(error) => error.code(),
            Self::Late | Self::Store(_) => None,
        }
    }

    /// Whether two transactions met, so that this one has a chance when it is done again.
    pub(crate) fn is_collision(&self) -> bool {
        let met = [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED];
        self.code().is_some_and(|code| met.contains(code))
    }

    /// The reason of our own, with its detail.
    pub(crate) fn refused(&self) -> Option<(&str, &str)> {
        let Self::Server(error) = self else { return None };
        let error = error.as_db_error().filter(|error| error.code().code().starts_with("MD"))?;
        Some((error.code().code(), error.detail().unwrap_or_default()))
    }
}

impl From<Failed> for Error {
    fn from(failed: Failed) -> Self {
        match failed {
            Failed::Store(error) => error,
            // Class 22 is about values, class 23 about constraints: the same would be refused again.
            failed if failed.code().is_some_and(|code| ["22", "23"].contains(&&code.code()[..2])) => {
                Self::Refused(Arc::new(failed))
            }
            failed => Self::unavailable(failed),
        }
    }
}

impl From<tokio_postgres::Error> for Error {
    fn from(error: tokio_postgres::Error) -> Self {
        Failed::Server(error).into()
    }
}

impl From<Failed> for CommitError {
    fn from(failed: Failed) -> Self {
        Self::Store(failed.into())
    }
}

/// The unique constraint that a statement violated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unique {
    PlaceOfPerson,
    PartyOfTable,
    HolderOfSeat,
    Reservation,
    ReservationOfTicket,
    RequestKey,
    Email,
    Payment,
    OpenPayment,
    PaymentOfReservation,
    Event,
}

impl Unique {
    /// What each is called in PostgreSQL, and how SQLite, which knows no names, lists its columns.
    const NAMES: [(&'static str, &'static str, Unique); 11] = [
        ("one_place_a_person", "reservation.slot_id, reservation.person", Unique::PlaceOfPerson),
        ("one_party_a_table", "reservation.slot_id, reservation.table_no", Unique::PartyOfTable),
        ("one_holder_a_seat", "held_seat.slot_id, held_seat.seat", Unique::HolderOfSeat),
        ("reservation_pkey", "reservation.id", Unique::Reservation),
        ("one_reservation_a_ticket", "reservation.ticket", Unique::ReservationOfTicket),
        ("one_request_a_key", "request_key.person, request_key.key", Unique::RequestKey),
        ("one_account_an_email", "account.email", Unique::Email),
        ("payment_pkey", "payment.id", Unique::Payment),
        ("one_open_payment", "payment.reservation", Unique::OpenPayment),
        ("one_payment_a_reservation", "payment.pays", Unique::PaymentOfReservation),
        ("one_event_an_id", "payment_event.provider, payment_event.id", Unique::Event),
    ];

    /// The one that SQLite says was violated.
    pub(crate) fn violated(error: &rusqlite::Error) -> Option<Self> {
        let rusqlite::Error::SqliteFailure(failure, Some(message)) = error else { return None };
        if failure.code != rusqlite::ErrorCode::ConstraintViolation {
            return None;
        }
        let columns = message.strip_prefix("UNIQUE constraint failed: ")?;
        Self::NAMES.iter().find(|(_, listed, _)| *listed == columns).map(|(.., unique)| *unique)
    }

    /// The one that PostgreSQL says was violated.
    pub(crate) fn named(failed: &Failed) -> Option<Self> {
        let Failed::Server(error) = failed else { return None };
        let error = error.as_db_error().filter(|error| *error.code() == SqlState::UNIQUE_VIOLATION)?;
        let name = error.constraint()?;
        Self::NAMES.iter().find(|(named, ..)| *named == name).map(|(.., unique)| *unique)
    }
}
