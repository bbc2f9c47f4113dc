//! Reading the decision log: what became of a ticket, and which request a key stood for.

use booking::{PersonId, TicketId};
use jiff::Timestamp;
use rusqlite::{OptionalExtension, Row, params};

use super::columns::{Instant, Wide};
use super::{Sqlite, millis};
use crate::error::Error;
use crate::records::{Logged, RequestKey, Sought, decision_in};

impl Sqlite {
    /// What was decided about this ticket, if anything was.
    pub(crate) async fn decided(&self, ticket: TicketId) -> Result<Option<Logged>, Error> {
        self.readers
            .ask(move |connection| {
                // Each side of a line is decided in order, so the first batch that reaches this far has the ticket.
                // Only tickets that come back late from an older life of the line make ranges overlap.
                let sides = [
                    "SELECT version, decided_at, decisions FROM decision INDEXED BY decision_by_guest \
                     WHERE slot_id = ?1 AND guests_to >= ?2 AND guests_from <= ?2 ORDER BY guests_to",
                    "SELECT version, decided_at, decisions FROM decision INDEXED BY decision_by_owner \
                     WHERE slot_id = ?1 AND owners_to >= ?2 AND owners_from <= ?2 ORDER BY owners_to",
                ];
                for sql in sides {
                    let mut batches = connection.prepare_cached(sql)?;
                    let mut rows = batches.query(params![ticket.slot.to_i64(), ticket.place_as_i64()])?;
                    while let Some(row) = rows.next()? {
                        if let Some(logged) = find(row, ticket)? {
                            return Ok(Some(logged));
                        }
                    }
                }
                Ok(None)
            })
            .await
    }

    /// What was decided about those of these tickets, all of one slot, about which anything was; in any order.
    pub(crate) async fn decided_among(&self, tickets: Vec<TicketId>) -> Result<Vec<Logged>, Error> {
        let Some((slot, mut sought)) = Sought::new(tickets) else { return Ok(Vec::new()) };
        self.readers
            .ask(move |connection| {
                let sql = "SELECT version, decided_at, decisions FROM decision INDEXED BY decision_by_guest \
                           WHERE slot_id = ?1 AND guests_to >= ?2 AND guests_from <= ?3 UNION ALL \
                           SELECT version, decided_at, decisions FROM decision INDEXED BY decision_by_owner \
                           WHERE slot_id = ?1 AND owners_to >= ?2 AND owners_from <= ?3";
                for (first, last) in sought.ranges() {
                    let mut batches = connection.prepare_cached(sql)?;
                    let mut rows = batches.query(params![slot.to_i64(), first, last])?;
                    while let Some(row) = rows.next()? {
                        let text: String = row.get(2)?;
                        sought.look_at(row.get(0)?, row.get::<_, Instant>(1)?.0, &text)?;
                    }
                }
                Ok(sought.found())
            })
            .await
    }

    /// What this person used this key for.
    pub(crate) async fn request_key(
        &self,
        person: PersonId,
        key: String,
    ) -> Result<Option<RequestKey>, Error> {
        self.readers
            .ask(move |connection| {
                let sql = "SELECT body, ticket FROM request_key WHERE person = ? AND key = ?";
                let mut lookup = connection.prepare_cached(sql)?;
                let found = lookup.query_row(params![Wide(person.0), key], |row| {
                    Ok(RequestKey {
                        body: row.get(0)?,
                        ticket: TicketId::from_u128(row.get::<_, Wide>(1)?.0),
                    })
                });
                Ok(found.optional()?)
            })
            .await
    }

    /// Forgets keys older than `before`, at most `limit` of them; how many it was.
    pub(crate) async fn forget_keys(&self, before: Timestamp, limit: u32) -> Result<usize, Error> {
        self.writer
            .run(move |connection| {
                let sql = "DELETE FROM request_key WHERE (person, key) IN \
                           (SELECT person, key FROM request_key WHERE at < ? ORDER BY at LIMIT ?)";
                Ok(connection.prepare_cached(sql)?.execute(params![millis(before), limit])?)
            })
            .await
    }
}

fn find(row: &Row<'_>, ticket: TicketId) -> Result<Option<Logged>, Error> {
    let text: String = row.get(2)?;
    let decision = decision_in(&text, ticket)?;
    let (batch, decided_at) = (row.get(0)?, row.get::<_, Instant>(1)?.0);
    Ok(decision.map(|decision| Logged { decision, decided_at, batch }))
}
