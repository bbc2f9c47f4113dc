//! The raw limit: the same rows into the same schema, in prepared statements, with nothing around them.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, params};

use crate::Result;
use crate::rows::{Written, now, range, slot};

/// What the store sets on its own connections.
pub const PRAGMAS: &str = "PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON; PRAGMA wal_autocheckpoint=4000; \
                       PRAGMA journal_size_limit=67108864; PRAGMA cache_size=-65536; PRAGMA temp_store=MEMORY;\n";

const INSERT_SLOT: &str = "INSERT INTO slot (id, version) VALUES (?1, ?2) \
                           ON CONFLICT (id) DO UPDATE SET version = ?2 WHERE version = ?2 - 1";
const INSERT_RESERVATION: &str = "INSERT INTO reservation (id, slot_id, person, name, status, party, table_no, payment, items, price, paid, \
     refunded, refund_due, expires_at, note, ticket, created_at, version, reseats) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, NULL, ?7, NULL, ?8, 0, 0, 0, ?9, NULL, ?10, ?11, 1, NULL)";
const INSERT_DECISION: &str = "INSERT INTO decision (slot_id, version, decided_at, guests_from, guests_to, decisions) \
                               VALUES (?1, ?2, ?3, ?4, ?5, ?6)";

/// Writes the batches, each in a durable transaction; how long that took.
pub fn by_rusqlite(path: &Path, batches: &[Written]) -> Result<Duration> {
    let connection = Connection::open(path)?;
    connection.execute_batch(PRAGMAS)?;
    let mut begin = connection.prepare("BEGIN IMMEDIATE")?;
    let mut commit = connection.prepare("COMMIT")?;
    let mut insert_slot = connection.prepare(INSERT_SLOT)?;
    let mut insert_reservation = connection.prepare(INSERT_RESERVATION)?;
    let mut insert_decision = connection.prepare(INSERT_DECISION)?;
    let start = Instant::now();
    for (batch, version) in batches.iter().zip(1_u64..) {
        begin.execute([])?;
        insert_slot.execute(params![slot().to_i64(), version])?;
        for r in &batch.reservations {
            insert_reservation.execute(params![
                r.id.0.to_be_bytes(),
                r.slot.to_i64(),
                r.person.0.to_be_bytes(),
                r.name,
                r.status().as_str(),
                r.party,
                r.payment.as_str(),
                r.price.0,
                r.expires_at.as_millisecond(),
                r.ticket.to_u128().to_be_bytes(),
                r.created_at.as_millisecond(),
            ])?;
        }
        let (from, to) = range(batch);
        let at = now().as_millisecond();
        insert_decision.execute(params![slot().to_i64(), version, at, from, to, batch.log])?;
        commit.execute([])?;
    }
    Ok(start.elapsed())
}
