//! Who waits for a place.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use booking::{PersonId, ReservationId, SlotId, TicketId, Waiting};
use tokio_postgres::Row;

use super::Postgres;
use super::columns::{Columns, Wide, text};
use super::session::Step;
use crate::error::Error;

const LEAVE: &str = "DELETE FROM waiting WHERE slot_id = $1 AND person = ANY ($2::uuid[])";
const LIST: &str = "INSERT INTO waiting (slot_id, person, name, party, rank, passed, ticket, offer, since) \
     SELECT $1::bigint, w.* FROM unnest($2::uuid[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[], $7::uuid[], \
     $8::uuid[], $9::bigint[]) AS w ON CONFLICT (slot_id, person) DO UPDATE SET passed = excluded.passed";

impl Postgres {
    /// Who waits for a place in a slot, in order.
    pub(crate) async fn waitlist(&self, slot: SlotId) -> Result<Vec<Waiting>, Error> {
        let sql = "SELECT slot_id, person, name, party, rank, passed, ticket, offer, since FROM waiting \
                   WHERE slot_id = $1 ORDER BY rank";
        let rows = self.ask(sql, &[&slot.to_i64()]).await?;
        rows.iter().map(|row| Ok(waiting(row)?.1)).collect()
    }

    /// Where this person waits for a place.
    pub(crate) async fn waits_of(&self, person: PersonId) -> Result<Vec<(SlotId, Waiting)>, Error> {
        let sql = "SELECT slot_id, person, name, party, rank, passed, ticket, offer, since FROM waiting \
                   WHERE person = $1 ORDER BY slot_id";
        self.ask(sql, &[&Wide(person.0)]).await?.iter().map(waiting).collect()
    }

    /// Slots from this one on for which anybody waits, at most so many.
    pub(crate) async fn waited_for(&self, from: SlotId, limit: u32) -> Result<Vec<SlotId>, Error> {
        let sql = "SELECT DISTINCT slot_id FROM waiting WHERE slot_id >= $1 ORDER BY slot_id LIMIT $2";
        let rows = self.ask(sql, &[&from.to_i64(), &i64::from(limit)]).await?;
        rows.iter().map(|row| Columns::of(row, "a slot").slot()).collect()
    }
}

fn waiting(row: &Row) -> Result<(SlotId, Waiting), Error> {
    let mut columns = Columns::of(row, "a party on a waitlist");
    let slot = columns.slot()?;
    let waiting = Waiting {
        person: PersonId(columns.id()?),
        name: Arc::from(columns.take::<&str>()?),
        party: columns.number()?,
        rank: columns.number()?,
        passed: columns.number()?,
        ticket: TicketId::from_u128(columns.id()?),
        offer: ReservationId(columns.id()?),
        since: columns.instant()?,
    };
    Ok((slot, waiting))
}

/// Changes of a waitlist, column by column. Whoever leaves goes first: a rank may be given out again.
#[derive(Default)]
pub(super) struct Listed<'a> {
    left: Vec<Wide>,
    person: Vec<Wide>,
    name: Vec<Cow<'a, str>>,
    party: Vec<i64>,
    rank: Vec<i64>,
    passed: Vec<i64>,
    ticket: Vec<Wide>,
    offer: Vec<Wide>,
    since: Vec<i64>,
}

impl<'a> Listed<'a> {
    pub(super) fn of(changes: &'a BTreeMap<PersonId, Option<Waiting>>) -> Self {
        let mut all = Self::default();
        for (person, now) in changes {
            let Some(waiting) = now else {
                all.left.push(Wide(person.0));
                continue;
            };
            all.person.push(Wide(person.0));
            all.name.push(text(&waiting.name));
            all.party.push(waiting.party.into());
            all.rank.push(waiting.rank.into());
            all.passed.push(waiting.passed.into());
            all.ticket.push(Wide(waiting.ticket.to_u128()));
            all.offer.push(Wide(waiting.offer.0));
            all.since.push(waiting.since.as_millisecond());
        }
        all
    }

    pub(super) fn push_to<'b>(&'b self, steps: &mut Vec<Step<'b>>, slot: &'b i64) {
        if !self.left.is_empty() {
            steps.push(Step::new(LEAVE, &[slot, &self.left]));
        }
        if !self.person.is_empty() {
            let Self { person, name, party, rank, passed, ticket, offer, since, .. } = self;
            steps.push(Step::new(LIST, &[slot, person, name, party, rank, passed, ticket, offer, since]));
        }
    }
}
