//! Reading the decision log: what became of a ticket, and which request a key stood for.

use booking::{PersonId, TicketId};
use jiff::Timestamp;

use super::Postgres;
use super::columns::{Columns, Wide, text};
use crate::error::Error;
use crate::records::{Logged, RequestKey, Sought, decision_in};

impl Postgres {
    /// What was decided about this ticket, if anything was.
    pub(crate) async fn decided(&self, ticket: TicketId) -> Result<Option<Logged>, Error> {
        // Each side of a line is decided in order, so the first batch that reaches this far has the ticket. Only tickets
        // that come back late from an older life of the line make ranges overlap; then the text tells.
        let sql = "(SELECT version, decided_at, decisions FROM decision WHERE slot_id = $1 \
                   AND guests_to >= $2 AND guests_from <= $2 AND strpos(decisions, $3) > 0 \
                   ORDER BY guests_to LIMIT 1) UNION ALL \
                   (SELECT version, decided_at, decisions FROM decision WHERE slot_id = $1 \
                   AND owners_to >= $2 AND owners_from <= $2 AND strpos(decisions, $3) > 0 \
                   ORDER BY owners_to LIMIT 1)";
        let written = format!("\"{ticket}\"");
        let rows = self.ask(sql, &[&ticket.slot.to_i64(), &ticket.place_as_i64(), &written]).await?;
        for row in &rows {
            let mut columns = Columns::of(row, "the decision log");
            let (batch, decided_at) = (columns.number()?, columns.instant()?);
            if let Some(decision) = decision_in(columns.take()?, ticket)? {
                return Ok(Some(Logged { decision, decided_at, batch }));
            }
        }
        Ok(None)
    }

    /// What was decided about those of these tickets, all of one slot, about which anything was; in any order.
    pub(crate) async fn decided_among(&self, tickets: Vec<TicketId>) -> Result<Vec<Logged>, Error> {
        let Some((slot, mut sought)) = Sought::new(tickets) else { return Ok(Vec::new()) };
        // The planner would rather join the slot's whole log with the ranges; OFFSET 0 makes it look into the index for each.
        let sql = "SELECT version, decided_at, decisions FROM unnest($2::bigint[], $3::bigint[]) AS sought (first, last), \
                   LATERAL ((SELECT * FROM decision WHERE slot_id = $1 \
                   AND guests_to >= first AND guests_from <= last OFFSET 0) UNION ALL \
                   (SELECT * FROM decision WHERE slot_id = $1 \
                   AND owners_to >= first AND owners_from <= last OFFSET 0)) AS batch";
        let (first, last): (Vec<_>, Vec<_>) = sought.ranges().into_iter().unzip();
        for row in &self.ask(sql, &[&slot.to_i64(), &first, &last]).await? {
            let mut columns = Columns::of(row, "the decision log");
            sought.look_at(columns.number()?, columns.instant()?, columns.take()?)?;
        }
        Ok(sought.found())
    }

    /// What this person used this key for.
    pub(crate) async fn request_key(
        &self,
        person: PersonId,
        key: String,
    ) -> Result<Option<RequestKey>, Error> {
        let sql = "SELECT body, ticket FROM request_key WHERE person = $1 AND key = $2";
        let rows = self.ask(sql, &[&Wide(person.0), &text(&key)]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let mut columns = Columns::of(row, "a key");
        let body = columns.take::<&[u8]>()?.try_into().map_err(|_| columns.unreadable())?;
        Ok(Some(RequestKey { body, ticket: TicketId::from_u128(columns.id()?) }))
    }

    /// Forgets keys older than `before`, at most `limit` of them; how many it was.
    pub(crate) async fn forget_keys(&self, before: Timestamp, limit: u32) -> Result<usize, Error> {
        // Processes that sweep at the same moment each take keys of their own.
        let sql = "DELETE FROM request_key WHERE (person, key) IN (SELECT person, key FROM request_key \
                   WHERE at < $1 ORDER BY at LIMIT $2 FOR UPDATE SKIP LOCKED) RETURNING 1";
        Ok(self.ask(sql, &[&before.as_millisecond(), &i64::from(limit)]).await?.len())
    }
}
