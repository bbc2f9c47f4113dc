//! PostgreSQL: a server that any number of processes share.
//!
//! Whatever changes something is one transaction, and a transaction is one exchange: all its statements are sent at once,
//! and a condition that does not hold raises an error inside it, so that nothing after it takes effect (`session.rs`). A
//! connection is held for one exchange, never while anybody waits for anything else, so that a pool of one is enough.

mod accounts;
pub(crate) mod audit;
mod batch;
mod columns;
mod connect;
mod log;
mod migrate;
mod options;
mod payments;
mod rooms;
mod secret;
mod session;
mod slots;
mod takes;
mod venues;
mod waitlist;
mod wallet;

use std::time::Duration;

use deadpool::Runtime;
use deadpool::managed::{Pool, PoolError, Timeouts};
use jiff::Timestamp;
use tokio_postgres::Row;

pub use options::{InvalidUrl, Options};
pub use secret::{rotate_signing_key, signing_keys};

use crate::error::{Error, Failed};
use columns::Columns;
use connect::Connector;
use session::{Session, Step};

/// How long somebody waits for a connection while others use them all. While the server is away nobody waits at all.
const QUEUED: Duration = Duration::from_secs(5);
/// How often a transaction that got in the way of another is tried again.
const TRIES: u32 = 6;
/// The first pause before that; it doubles, and is cut short by chance, so that the two do not meet again.
const PAUSE: Duration = Duration::from_millis(4);

/// The store over a PostgreSQL server.
pub(crate) struct Postgres {
    pool: Pool<Connector>,
    #[cfg(feature = "controls")]
    pub(crate) controls: crate::Controls,
}

impl Postgres {
    /// Brings the database to this version's schema and opens a pool of connections to it.
    pub(crate) async fn open(options: &Options) -> Result<Self, Error> {
        Self::migrate(options).await?;
        let timeouts = Timeouts { wait: Some(QUEUED), create: None, recycle: None };
        let pool = Pool::builder(Connector::new(options)?)
            .max_size(options.connections)
            .timeouts(timeouts)
            .runtime(Runtime::Tokio1)
            .build()
            .map_err(Error::unavailable)?;
        Ok(Self {
            pool,
            #[cfg(feature = "controls")]
            controls: crate::Controls { version_check: true },
        })
    }

    /// Whether the database can be written to.
    pub(crate) async fn ping(&self) -> Result<(), Error> {
        // Asked of the server, not of the pool: a replica that took over reading is no place to write to.
        let rows = self.ask("SELECT pg_is_in_recovery()", &[]).await?;
        match rows.first().and_then(|row| row.try_get(0).ok()) {
            Some(false) => Ok(()),
            _ => Err(Error::Unfit("it is a replica, which cannot be written to")),
        }
    }

    /// What time it is on the server.
    pub(crate) async fn clock(&self) -> Result<Timestamp, Error> {
        let sql = "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint";
        let rows = self.ask(sql, &[]).await?;
        let unreadable = Error::Unreadable { what: "the clock" };
        rows.first().map_or(Err(unreadable), |row| Columns::of(row, "the clock").instant())
    }

    /// The next life of a line.
    pub(crate) async fn next_epoch(&self) -> Result<u32, Error> {
        let rows = self.ask("SELECT nextval('epoch')", &[]).await?;
        let epoch = rows.first().and_then(|row| row.try_get::<_, i64>(0).ok());
        epoch.and_then(|epoch| u32::try_from(epoch).ok()).ok_or(Error::Unreadable { what: "the epoch" })
    }

    /// Closes the connections; those in use when they come back.
    pub(crate) fn close(&self) {
        self.pool.close();
    }

    /// One statement, alone in its transaction.
    async fn ask(&self, sql: &'static str, values: session::Values<'_>) -> Result<Vec<Row>, Failed> {
        self.session().await?.ask(sql, values).await
    }

    /// Several statements in one transaction and one exchange: all of them, or none. What got in the way of another
    /// transaction, or came into a deadlock with it, is done again from the start.
    async fn transact(&self, steps: &[Step<'_>]) -> Result<Vec<Vec<Row>>, Failed> {
        let mut pause = PAUSE;
        for _ in 1..TRIES {
            match self.session().await?.transact(steps).await {
                Err(failed) if failed.is_collision() => {
                    tokio::time::sleep(pause.mul_f64(rand::random_range(0.5..1.0))).await;
                    pause *= 2;
                }
                done => return done,
            }
        }
        self.session().await?.transact(steps).await
    }

    async fn session(&self) -> Result<Session, Error> {
        self.pool.manager().refuse_while_away()?;
        match self.pool.get().await {
            Ok(connection) => Ok(Session::new(connection)),
            Err(PoolError::Backend(error)) => Err(error),
            Err(PoolError::Closed) => Err(Error::Closed),
            Err(error) => Err(Error::unavailable(error)),
        }
    }
}
