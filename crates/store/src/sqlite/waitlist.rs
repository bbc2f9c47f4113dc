//! Who waits for a place.

use std::sync::Arc;

use booking::{PersonId, ReservationId, SlotId, TicketId, Waiting};
use rusqlite::{Connection, Row, params};

use super::columns::{Instant, Wide};
use super::{Sqlite, millis};
use crate::error::{CommitError, Error};
use crate::records::Batch;

const WAITING: &str = "slot_id, person, name, party, rank, passed, ticket, offer, since";

impl Sqlite {
    /// Who waits for a place in a slot, in order.
    pub(crate) async fn waitlist(&self, slot: SlotId) -> Result<Vec<Waiting>, Error> {
        self.readers.ask(move |connection| of_slot(connection, slot)).await
    }

    /// Where this person waits for a place.
    pub(crate) async fn waits_of(&self, person: PersonId) -> Result<Vec<(SlotId, Waiting)>, Error> {
        self.readers
            .ask(move |connection| {
                let sql = format!("SELECT {WAITING} FROM waiting WHERE person = ? ORDER BY slot_id");
                let mut select = connection.prepare_cached(&sql)?;
                let rows = select.query_map([Wide(person.0)], waiting)?;
                Ok(rows.collect::<Result<_, _>>()?)
            })
            .await
    }

    /// Slots from this one on for which anybody waits, at most so many.
    pub(crate) async fn waited_for(&self, from: SlotId, limit: u32) -> Result<Vec<SlotId>, Error> {
        self.readers
            .ask(move |connection| {
                let sql = "SELECT DISTINCT slot_id FROM waiting WHERE slot_id >= ? ORDER BY slot_id LIMIT ?";
                let mut select = connection.prepare_cached(sql)?;
                let rows = select
                    .query_map(params![from.to_i64(), limit], |row| Ok(SlotId::from_i64(row.get(0)?)))?;
                Ok(rows.collect::<Result<_, _>>()?)
            })
            .await
    }
}

pub(super) fn of_slot(connection: &Connection, slot: SlotId) -> Result<Vec<Waiting>, Error> {
    let sql = format!("SELECT {WAITING} FROM waiting WHERE slot_id = ? ORDER BY rank");
    let mut select = connection.prepare_cached(&sql)?;
    let rows = select.query_map([slot.to_i64()], |row| waiting(row).map(|(_, waiting)| waiting))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Whoever leaves goes first: a rank may be given out again.
pub(super) fn store(connection: &Connection, batch: &Batch) -> Result<(), CommitError> {
    let slot = batch.slot.to_i64();
    for person in batch.changes.waitlist.iter().filter(|(_, now)| now.is_none()).map(|(person, _)| person) {
        let sql = "DELETE FROM waiting WHERE slot_id = ? AND person = ?";
        connection.prepare_cached(sql)?.execute(params![slot, Wide(person.0)])?;
    }
    for waiting in batch.changes.waitlist.values().flatten() {
        let sql = format!(
            "INSERT INTO waiting ({WAITING}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) \
             ON CONFLICT (slot_id, person) DO UPDATE SET passed = ?6"
        );
        let values = params![
            slot,
            Wide(waiting.person.0),
            waiting.name,
            waiting.party,
            waiting.rank,
            waiting.passed,
            Wide(waiting.ticket.to_u128()),
            Wide(waiting.offer.0),
            millis(waiting.since),
        ];
        connection.prepare_cached(&sql)?.execute(values)?;
    }
    Ok(())
}

fn waiting(row: &Row<'_>) -> rusqlite::Result<(SlotId, Waiting)> {
    let waiting = Waiting {
        person: PersonId(row.get::<_, Wide>(1)?.0),
        name: row.get::<_, Arc<str>>(2)?,
        party: row.get(3)?,
        rank: row.get(4)?,
        passed: row.get(5)?,
        ticket: TicketId::from_u128(row.get::<_, Wide>(6)?.0),
        offer: ReservationId(row.get::<_, Wide>(7)?.0),
        since: row.get::<_, Instant>(8)?.0,
    };
    Ok((SlotId::from_i64(row.get(0)?), waiting))
}
