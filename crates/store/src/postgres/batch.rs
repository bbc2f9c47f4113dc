//! Storing a batch: the condition, what frees, what takes, the money, the log; all of it or nothing, in one exchange.
//!
//! Locks are taken in one order by everybody: the venue (shared), then slots by id, then wallets by person, then tokens.

use std::collections::{BTreeSet, HashSet};

use booking::{Change, Movement, TicketId};

use super::Postgres;
use super::columns::{Wide, id_in, text, version};
use super::payments::PaymentRows;
use super::rooms::FINISH;
use super::session::Step;
use super::takes::{Seats, Takes};
use super::venues::{TOGETHER, number};
use super::waitlist::Listed;
use crate::error::{CommitError, Error, Failed, Unique, reason};
use crate::records::{Batch, StoredKey, seats_text};

/// The slots of a batch that touches several, in the order that everybody keeps.
const LOCK_SLOTS: &str = "SELECT id FROM slot WHERE id = ANY ($1::bigint[]) ORDER BY id FOR UPDATE";
/// The condition: moves the slot's version on, from exactly the one that the batch was decided from.
const ADVANCE: &str = "WITH moved AS (UPDATE slot SET version = $2::bigint + 1 WHERE id = $1 AND version = $2 \
     AND EXISTS (SELECT FROM venue WHERE id = $3 AND version = $4) RETURNING 1) \
     SELECT CASE WHEN EXISTS (SELECT FROM moved) THEN 0 ELSE refuse($5) END";
/// The same for a slot that does not exist yet.
const BEGIN: &str = "WITH made AS (INSERT INTO slot (id, version) SELECT $1::bigint, $2::bigint + 1 \
     WHERE EXISTS (SELECT FROM venue WHERE id = $3 AND version = $4) ON CONFLICT DO NOTHING RETURNING 1) \
     SELECT CASE WHEN EXISTS (SELECT FROM made) THEN 0 ELSE refuse($5) END";
/// What the condition protects from: moves the version on from wherever it is.
#[cfg(feature = "controls")]
const ADVANCE_REGARDLESS: &str =
    "INSERT INTO slot (id, version) VALUES ($1, 1) ON CONFLICT (id) DO UPDATE SET version = slot.version + 1";
/// A row that has moved on although the slot has not came from another slot, and was changed there.
const CHANGE: &str = "WITH changed AS (UPDATE reservation r SET slot_id = c.slot_id, status = c.status, \
     party = c.party, table_no = c.table_no, price = c.price, paid = c.paid, refunded = c.refunded, \
     refund_due = c.refund_due, version = c.version, expires_at = c.expires_at, seats = c.seats \
     FROM unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[], \
     $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $13::bigint[], $14::text[]) \
     AS c (id, from_version, slot_id, status, party, table_no, price, paid, refunded, refund_due, version, expires_at, seats) \
     WHERE r.id = c.id AND r.version = c.from_version RETURNING 1) \
     SELECT CASE WHEN (SELECT count(*) FROM changed) = cardinality($1) THEN 0 ELSE refuse($12) END";
const LEAVE_SEATS: &str = "DELETE FROM held_seat WHERE reservation = ANY ($1::uuid[])";
const LEAVE_TABLES: &str = "UPDATE reservation SET table_no = NULL WHERE id = ANY ($1::uuid[])";
const BUMP: &str = "UPDATE slot SET version = version + 1 WHERE id = ANY ($1::bigint[])";
pub(super) const LOCK_WALLETS: &str =
    "SELECT FROM wallet WHERE person = ANY ($1::uuid[]) ORDER BY person FOR UPDATE";
/// Each movement with what the wallet holds after it; the first that it cannot bear is named.
const ENTER: &str = "INSERT INTO wallet_entry (person, amount, balance, kind, reservation, at) \
     SELECT person, amount, CASE WHEN balance >= 0 THEN balance ELSE refuse($6, ticket) END, kind, reservation, $7::bigint \
     FROM (SELECT m.*, (wallet.balance + sum(m.amount) OVER (PARTITION BY m.person ORDER BY m.n))::bigint AS balance \
     FROM unnest($1::uuid[], $2::bigint[], $3::text[], $4::uuid[], $5::uuid[]) WITH ORDINALITY \
     AS m (person, amount, kind, reservation, ticket, n) LEFT JOIN wallet ON wallet.person = m.person) AS running \
     ORDER BY n";
const MOVE_MONEY: &str = "UPDATE wallet SET balance = balance + m.amount, version = version + m.movements \
     FROM (SELECT person, sum(amount)::bigint AS amount, count(*) AS movements \
     FROM unnest($1::uuid[], $2::bigint[]) AS m (person, amount) GROUP BY person) AS m WHERE wallet.person = m.person";
const REMEMBER: &str = "INSERT INTO request_key (person, key, body, ticket, at) \
     SELECT k.*, $5::bigint FROM unnest($1::uuid[], $2::text[], $3::bytea[], $4::uuid[]) AS k";
const LOG: &str = "INSERT INTO decision (slot_id, version, decided_at, guests_from, guests_to, owners_from, owners_to, \
     decisions) SELECT id, version, $2::bigint, $3::bigint, $4::bigint, $5::bigint, $6::bigint, $7 FROM slot WHERE id = $1 RETURNING version";

impl Postgres {
    /// Stores a batch if slot and venue are as they were when it was decided; the slot's new version.
    pub(crate) async fn commit(&self, batch: Batch) -> Result<u64, CommitError> {
        match self.store(&batch).await {
            Ok(version) => Ok(version),
            Err(failed) => Err(self.meaning(failed, &batch).await),
        }
    }

    async fn store(&self, batch: &Batch) -> Result<u64, Failed> {
        let (slot, at) = (batch.slot.to_i64(), batch.decided_at.as_millisecond());
        let (venue, from) = (number(batch.slot.venue()), version(batch.slot_version));
        let venue_version = version(batch.venue_version);
        let mut steps = vec![Step::new(TOGETHER, &[&venue])];

        let left: BTreeSet<i64> = batch
            .changes
            .changed
            .iter()
            .filter_map(|change| change.from_slot)
            .map(|slot| slot.to_i64())
            .collect();
        let left: Vec<i64> = left.into_iter().collect();
        let touched: Vec<i64> = left.iter().copied().chain([slot]).collect();
        if !left.is_empty() {
            steps.push(Step::new(LOCK_SLOTS, &[&touched]));
        }
        let condition = if from == 0 { BEGIN } else { ADVANCE };
        let condition = Step::new(condition, &[&slot, &from, &venue, &venue_version, &reason::STALE]);
        #[cfg(feature = "controls")]
        let condition =
            if self.controls.version_check { condition } else { Step::new(ADVANCE_REGARDLESS, &[&slot]) };
        steps.push(condition);

        let (freed, kept): (Vec<_>, Vec<_>) =
            batch.changes.changed.iter().partition(|change| !change.after.status().holds_places());
        let leaving: Vec<_> =
            kept.iter().filter(|change| change.frees).map(|change| Wide(change.after.id.0)).collect();
        let leaving_seats = freed.iter().chain(kept.iter().filter(|change| change.frees));
        let leaving_seats: Vec<_> = leaving_seats
            .filter(|change| !change.after.seats.is_empty())
            .map(|change| Wide(change.after.id.0))
            .collect();
        let retaken = Seats::of(kept.iter().filter(|change| change.frees).map(|change| &*change.after));
        let (freed, kept) = (Changed::of(freed), Changed::of(kept));
        freed.push_to(&mut steps);
        // Tables and seats are swapped by letting go of all of them before any is taken.
        if !leaving.is_empty() {
            steps.push(Step::new(LEAVE_TABLES, &[&leaving]));
        }
        if !leaving_seats.is_empty() {
            steps.push(Step::new(LEAVE_SEATS, &[&leaving_seats]));
        }
        kept.push_to(&mut steps);
        retaken.push_to(&mut steps);
        if !left.is_empty() {
            steps.push(Step::new(BUMP, &[&left]));
        }
        let takes = Takes::of(&batch.changes.new);
        takes.push_to(&mut steps);
        let waitlist = Listed::of(&batch.changes.waitlist);
        waitlist.push_to(&mut steps, &slot);
        let money = Money::of(&batch.changes.movements);
        money.push_to(&mut steps, &at);
        let payments = PaymentRows::of(&batch.changes.payments, &batch.changes.events);
        payments.push_to(&mut steps, &at);
        let payers: Vec<_> = batch.payers().into_iter().map(|payer| Wide(payer.0)).collect();
        if !payers.is_empty() {
            steps.push(Step::new(FINISH, &[&venue, &payers, &at]));
        }
        let keys = Keys::of(&batch.keys);
        keys.push_to(&mut steps, &at);

        let (guests, owners, decisions) = (batch.guests(), batch.owners(), batch.log()?);
        let [guests_from, owners_from] = [guests, owners].map(|side| side.map(|(from, _)| from));
        let [guests_to, owners_to] = [guests, owners].map(|side| side.map(|(_, to)| to));
        let row: [&(dyn tokio_postgres::types::ToSql + Sync); 7] =
            [&slot, &at, &guests_from, &guests_to, &owners_from, &owners_to, &decisions];
        steps.push(Step::new(LOG, &row));

        let rows = self.transact(&steps).await?;
        let stored = rows.last().and_then(|rows| rows.first()).and_then(|row| row.try_get::<_, i64>(0).ok());
        let stored = stored.and_then(|version| u64::try_from(version).ok());
        Ok(stored.ok_or(Error::Unreadable { what: "the version of a slot" })?)
    }

    /// What a failure means for the batch.
    async fn meaning(&self, failed: Failed, batch: &Batch) -> CommitError {
        match failed.refused() {
            Some((reason::STALE, _)) => return CommitError::Stale,
            Some((reason::SHORT, ticket)) => {
                let ticket = id_in(ticket).map(|id| CommitError::Short(TicketId::from_u128(id)));
                return ticket.unwrap_or_else(|| failed.into());
            }
            _ => {}
        }
        let culprit = match Unique::named(&failed) {
            // The rows say what the decision did not know: it was made from an old copy.
            Some(
                Unique::PlaceOfPerson
                | Unique::PartyOfTable
                | Unique::HolderOfSeat
                | Unique::Payment
                | Unique::OpenPayment
                | Unique::PaymentOfReservation
                | Unique::Event,
            ) => return CommitError::Stale,
            Some(Unique::Reservation | Unique::ReservationOfTicket) => self.won_before(batch).await,
            Some(Unique::RequestKey) => {
                // A key that is not there any more has been forgotten since: then it can be stored now.
                let again = || CommitError::Store(Error::unavailable(Failed::Late));
                self.used_before(batch)
                    .await
                    .map(|ticket| Some(ticket.map_or_else(again, CommitError::KeyUsed)))
            }
            _ => Ok(None),
        };
        match culprit {
            Ok(Some(culprit)) => culprit,
            Ok(None) => failed.into(),
            Err(unknown) => unknown.into(),
        }
    }

    /// The first ticket of the batch that has won a reservation already, or wins two, or whose reservation another has won.
    async fn won_before(&self, batch: &Batch) -> Result<Option<CommitError>, Failed> {
        let by_ticket = "SELECT n FROM unnest($1::uuid[]) WITH ORDINALITY AS t (ticket, n) \
                         JOIN reservation USING (ticket) ORDER BY n LIMIT 1";
        let by_id = "SELECT n FROM unnest($1::uuid[]) WITH ORDINALITY AS t (id, n) \
                     JOIN reservation USING (id) ORDER BY n LIMIT 1";
        let tickets: Vec<_> = batch.changes.new.iter().map(|r| r.ticket).collect();
        let wide: Vec<_> = tickets.iter().map(|ticket| Wide(ticket.to_u128())).collect();
        let found = nth(&self.ask(by_ticket, &[&wide]).await?).and_then(|n| tickets.get(n).copied());
        let mut seen = HashSet::new();
        let decided = found.or_else(|| tickets.iter().copied().find(|ticket| !seen.insert(*ticket)));
        if let Some(ticket) = decided {
            return Ok(Some(CommitError::Decided(ticket)));
        }
        let ids: Vec<_> = batch.changes.new.iter().map(|r| Wide(r.id.0)).collect();
        let found = nth(&self.ask(by_id, &[&ids]).await?).and_then(|n| tickets.get(n).copied());
        Ok(found.map(CommitError::Made))
    }

    /// The first ticket of the batch whose key is used already, or used twice.
    async fn used_before(&self, batch: &Batch) -> Result<Option<TicketId>, Failed> {
        let sql = "SELECT n FROM unnest($1::uuid[], $2::text[]) WITH ORDINALITY AS k (person, key, n) \
                   JOIN request_key USING (person, key) ORDER BY n LIMIT 1";
        let keys = Keys::of(&batch.keys);
        let found = nth(&self.ask(sql, &[&keys.person, &keys.key]).await?).and_then(|n| batch.keys.get(n));
        let mut seen = HashSet::new();
        let culprit =
            found.or_else(|| batch.keys.iter().find(|key| !seen.insert((key.person, key.key.as_str()))));
        Ok(culprit.map(|key| key.request.ticket))
    }
}

/// Places in an array of the server's begin with 1.
fn nth(rows: &[tokio_postgres::Row]) -> Option<usize> {
    let n: i64 = rows.first()?.try_get(0).ok()?;
    usize::try_from(n - 1).ok()
}

/// Changed reservations, column by column.
#[derive(Default)]
struct Changed {
    id: Vec<Wide>,
    numbers: [Vec<i64>; 9],
    status: Vec<&'static str>,
    table_no: Vec<Option<i64>>,
    seats: Vec<Option<String>>,
}

impl Changed {
    fn of(changes: Vec<&Change>) -> Self {
        let mut all = Self::default();
        for change in changes {
            let r = &change.after;
            all.id.push(Wide(r.id.0));
            all.status.push(r.status().as_str());
            all.table_no.push(r.table.map(i64::from));
            all.seats.push(seats_text(&r.seats));
            let (from, party, version) = (change.from_version.into(), r.party.into(), r.version.into());
            let (money, until) = ([r.price.0, r.paid.0, r.refunded.0, r.refund_due.0], r.expires_at);
            let [price, paid, refunded, due] = money;
            let until = until.as_millisecond();
            let row = [from, r.slot.to_i64(), party, price, paid, refunded, due, version, until];
            all.numbers.iter_mut().zip(row).for_each(|(column, value)| column.push(value));
        }
        all
    }

    fn push_to<'a>(&'a self, steps: &mut Vec<Step<'a>>) {
        if self.id.is_empty() {
            return;
        }
        let Self { id, numbers, status, table_no, seats } = self;
        let [from, slot, party, price, paid, refunded, due, version, until] = numbers;
        let values: [&(dyn tokio_postgres::types::ToSql + Sync); 14] = [
            id,
            from,
            slot,
            status,
            party,
            table_no,
            price,
            paid,
            refunded,
            due,
            version,
            &reason::STALE,
            until,
            seats,
        ];
        steps.push(Step::new(CHANGE, &values));
    }
}

/// Movements of money, column by column.
struct Money {
    person: Vec<Wide>,
    amount: Vec<i64>,
    kind: Vec<&'static str>,
    reservation: Vec<Wide>,
    ticket: Vec<Wide>,
}

impl Money {
    fn of(movements: &[Movement]) -> Self {
        Self {
            person: movements.iter().map(|m| Wide(m.person.0)).collect(),
            amount: movements.iter().map(|m| m.amount.0).collect(),
            kind: movements.iter().map(|m| m.kind.as_str()).collect(),
            reservation: movements.iter().map(|m| Wide(m.reservation.0)).collect(),
            ticket: movements.iter().map(|m| Wide(m.ticket.to_u128())).collect(),
        }
    }

    fn push_to<'a>(&'a self, steps: &mut Vec<Step<'a>>, at: &'a i64) {
        if self.person.is_empty() {
            return;
        }
        let Self { person, amount, kind, reservation, ticket } = self;
        steps.push(Step::new(LOCK_WALLETS, &[person]));
        steps.push(Step::new(ENTER, &[person, amount, kind, reservation, ticket, &reason::SHORT, at]));
        steps.push(Step::new(MOVE_MONEY, &[person, amount]));
    }
}

/// Keys, column by column.
struct Keys<'a> {
    person: Vec<Wide>,
    key: Vec<std::borrow::Cow<'a, str>>,
    body: Vec<&'a [u8]>,
    ticket: Vec<Wide>,
}

impl<'a> Keys<'a> {
    fn of(keys: &'a [StoredKey]) -> Self {
        Self {
            person: keys.iter().map(|key| Wide(key.person.0)).collect(),
            key: keys.iter().map(|key| text(&key.key)).collect(),
            body: keys.iter().map(|key| key.request.body.as_slice()).collect(),
            ticket: keys.iter().map(|key| Wide(key.request.ticket.to_u128())).collect(),
        }
    }

    fn push_to<'b>(&'b self, steps: &mut Vec<Step<'b>>, at: &'b i64) {
        if !self.person.is_empty() {
            steps.push(Step::new(REMEMBER, &[&self.person, &self.key, &self.body, &self.ticket, at]));
        }
    }
}
