//! SQLite: one file, one writer, durable at every commit.
//!
//! One thread owns the writing connection. It takes whatever has queued up while it was busy and carries all of it in
//! one transaction with one fsync, each piece in a savepoint of its own, so that one conflict rolls back one piece.
//! Reads go to a few threads with connections of their own and never wait for the writer (WAL).

mod accounts;
pub(crate) mod audit;
mod batch;
mod columns;
mod log;
mod payments;
mod reader;
mod rooms;
mod slots;
mod venues;
mod waitlist;
mod wallet;
mod writer;

use std::path::Path;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};

use crate::error::Error;
use reader::Readers;
use writer::Writer;

mod embedded {
    refinery::embed_migrations!("migrations/sqlite");
}

/// How long a statement waits for another process that holds the file: then it is for the caller to try again.
const BUSY: Duration = Duration::from_millis(250);
/// How long a process that starts waits for others that start.
const STARTING: Duration = Duration::from_secs(10);
const READERS: usize = 3;

/// The store over one SQLite file.
pub(crate) struct Sqlite {
    writer: Writer,
    readers: Readers,
    #[cfg(feature = "controls")]
    pub(crate) controls: crate::Controls,
}

impl Sqlite {
    /// Opens the file, makes it if there is none, and brings it to this version's schema.
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        Self::migrate(path)?;
        let writer = Writer::start(connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?)?;
        let readers = Readers::start(READERS, || Ok(connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?))?;
        Ok(Self {
            writer,
            readers,
            #[cfg(feature = "controls")]
            controls: crate::Controls { version_check: true },
        })
    }

    /// Brings the file to this version's schema; names the steps that were taken.
    pub(crate) fn migrate(path: &Path) -> Result<Vec<String>, Error> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        let mut connection = connect_to_new(path, flags)?;
        connection.busy_timeout(STARTING)?;
        connection.set_transaction_behavior(TransactionBehavior::Immediate);
        // One transaction for the steps and their record: a crash in between would leave tables that the next start
        // tries to make again.
        let runner = embedded::migrations::runner().set_grouped(true);
        // Whoever looked before another process had finished fails on what that one has made, and finds it recorded.
        let report = runner
            .run(&mut connection)
            .or_else(|_| runner.run(&mut connection))
            .map_err(Error::unavailable)?;
        Ok(report.applied_migrations().iter().map(|step| step.to_string()).collect())
    }

    /// Whether the database can be written to: for health checks.
    pub(crate) async fn ping(&self) -> Result<(), Error> {
        self.writer.run(|_| Ok(())).await
    }

    /// What time it is on this machine, where the file is.
    pub(crate) async fn clock(&self) -> Result<Timestamp, Error> {
        Timestamp::from_millisecond(millis(Timestamp::now()))
            .map_err(|_| Error::Unreadable { what: "the clock" })
    }

    /// The next life of a line.
    pub(crate) async fn next_epoch(&self) -> Result<u32, Error> {
        self.writer
            .run(|connection| {
                let sql = "UPDATE counter SET value = value + 1 WHERE name = 'epoch' RETURNING value";
                Ok(connection.query_row(sql, [], |row| row.get(0))?)
            })
            .await
    }

    /// Ends the threads, once what they have in hand is done.
    pub(crate) fn close(&self) {
        self.writer.close();
        self.readers.close();
    }
}

/// Two processes that turn a new file to WAL at the same moment both hold it for reading already, and SQLite refuses
/// one of them at once instead of waiting: it has to come again.
fn connect_to_new(path: &Path, flags: OpenFlags) -> rusqlite::Result<Connection> {
    let give_up = Instant::now() + STARTING;
    loop {
        match connect(path, flags) {
            Err(error)
                if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) && Instant::now() < give_up =>
            {
                std::thread::sleep(Duration::from_millis(5));
            }
            connected => return connected,
        }
    }
}

fn connect(path: &Path, flags: OpenFlags) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(BUSY)?;
    connection.set_prepared_statement_cache_capacity(64);
    // A statement is planned once. Otherwise SQLite plans it anew for the values it is given, which takes longer than most of
    // ours run.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    if !flags.contains(OpenFlags::SQLITE_OPEN_READ_ONLY) {
        connection.pragma_update(None, "journal_mode", "WAL")?;
        // An answered success is durable: FULL syncs the log at every commit, NORMAL loses the last ones in a power cut.
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.pragma_update(None, "foreign_keys", true)?;
        connection.pragma_update(None, "wal_autocheckpoint", 4_000)?;
        connection.pragma_update(None, "journal_size_limit", 64 << 20)?;
    }
    connection.pragma_update(None, "cache_size", -65_536)?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    Ok(connection)
}

/// Instants are kept in milliseconds.
fn millis(at: Timestamp) -> i64 {
    at.as_millisecond()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asked of the connection itself: `synchronous` is not kept in the file.
    #[test]
    fn the_writer_syncs_every_commit() {
        let dir = tempfile::tempdir().unwrap();
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        let connection = connect(&dir.path().join("maitred.db"), flags).unwrap();
        let pragma = |name: &str| {
            connection.pragma_query_value(None, name, |row| row.get::<_, rusqlite::types::Value>(0))
        };
        assert_eq!(pragma("journal_mode"), Ok(rusqlite::types::Value::Text("wal".into())));
        assert_eq!(pragma("synchronous"), Ok(rusqlite::types::Value::Integer(2)));
        assert_eq!(pragma("foreign_keys"), Ok(rusqlite::types::Value::Integer(1)));
    }
}
