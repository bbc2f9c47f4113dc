//! The store: one type for the rest of the program, whichever engine is behind it.

use std::fmt;
use std::path::{Path, PathBuf};

use booking::{PersonId, Reservation, ReservationId, Won};
use jiff::Timestamp;

use crate::backend::Backend;
use crate::error::Error;
use crate::postgres::{self, Postgres};
use crate::records::{Charge, ChargeError, Entry};
use crate::sqlite::Sqlite;

/// Where the truth is kept: the engines there are.
#[derive(Debug, Clone)]
pub enum Database {
    /// One file, written by one process at a time.
    Sqlite(PathBuf),
    /// A server, shared by any number of processes.
    Postgres(postgres::Options),
}

/// Shows no password.
impl fmt::Display for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => path.display().fmt(f),
            Self::Postgres(options) => options.fmt(f),
        }
    }
}

/// What tests may switch off, to show that it is needed.
#[cfg(feature = "controls")]
#[derive(Debug, Clone, Copy)]
pub struct Controls {
    /// Whether a batch is conditional on the versions from which it was decided.
    pub version_check: bool,
}

/// The store.
pub struct Store {
    pub(crate) backend: Box<dyn Backend>,
}

impl Store {
    /// Opens a database and brings it to this version's schema.
    pub async fn open(database: &Database) -> Result<Self, Error> {
        match database {
            Database::Sqlite(path) => Self::sqlite(path),
            Database::Postgres(options) => Self::postgres(options).await,
        }
    }

    /// Brings a database to this version's schema; names the steps that were taken.
    pub async fn migrate(database: &Database) -> Result<Vec<String>, Error> {
        match database {
            Database::Sqlite(path) => Sqlite::migrate(path),
            Database::Postgres(options) => Postgres::migrate(options).await,
        }
    }

    /// Opens a file, makes it if there is none, and brings it to this version's schema.
    pub fn sqlite(path: &Path) -> Result<Self, Error> {
        Ok(Self { backend: Box::new(Sqlite::open(path)?) })
    }

    /// Opens a database of a server and brings it to this version's schema.
    pub async fn postgres(options: &postgres::Options) -> Result<Self, Error> {
        Ok(Self { backend: Box::new(Postgres::open(options).await?) })
    }

    /// A store over an engine of the caller's.
    #[cfg(feature = "simulation")]
    pub fn over(backend: Box<dyn Backend>) -> Self {
        Self { backend }
    }

    /// The same store with some protection off.
    #[cfg(feature = "controls")]
    pub fn with_controls(mut self, controls: Controls) -> Self {
        self.backend.set_controls(controls);
        self
    }

    /// One reservation.
    pub async fn reservation(&self, id: ReservationId) -> Result<Option<Reservation>, Error> {
        Ok(self.reservations(vec![id]).await?.pop())
    }

    /// Puts points into one wallet; with a key, once.
    pub async fn charge(
        &self,
        person: PersonId,
        amount: Won,
        key: Option<String>,
        at: Timestamp,
    ) -> Result<Entry, ChargeError> {
        let charged = self.charge_all(vec![Charge { person, amount, key, at }]).await?.pop();
        charged.unwrap_or(Err(ChargeError::Store(Error::Unreadable { what: "a charge" })))
    }

    /// Ends whatever works in the background, once what it has in hand is done.
    pub fn close(&self) {
        self.backend.close();
    }
}
