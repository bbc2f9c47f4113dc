//! The transactions: each locks the slot, does one thing, and is sent whole.

use booking::{PersonId, ReservationId, SlotId};
use jiff::Timestamp;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Row};

use super::wide::Wide;
use super::{Desk, Tally};
use crate::Result;

/// Seven minutes, as maitred's default policy has it, and its deposit a head.
const HOLD_MS: i64 = 7 * 60 * 1_000;
const DEPOSIT: i64 = 5_000;

const LOCK: &str = "SELECT FROM slot WHERE id = $1 FOR UPDATE";
const LOCK_SLOT_OF: &str =
    "SELECT FROM slot WHERE id = (SELECT slot_id FROM reservation WHERE id = $1) FOR UPDATE";
const CREATE: &str = "INSERT INTO slot (id, version) VALUES ($1, 1) ON CONFLICT DO NOTHING";

/// What both ways to count insert where there is room. `$1` slot, `$2` party, `$3` capacity, `$4` id, `$5` person, `$6`
/// price, `$7` the end of the hold, `$8` now.
macro_rules! insert_from {
    ($room:literal) => {
        concat!(
            "INSERT INTO reservation (id, slot_id, person, name, status, party, payment, price, paid, refunded, \
             refund_due, expires_at, ticket, created_at, version) SELECT $4::uuid, $1::bigint, $5::uuid, 'Kim Guest', \
             'TEMPORARY', $2::bigint, 'deposit', $6::bigint, 0, 0, 0, $7::bigint, $4, $8::bigint, 1 FROM ",
            $room,
            " RETURNING 1"
        )
    };
}

/// How many were taken, and whether one more party is in.
const BOOK_BY_SUM: &str = concat!(
    "WITH held AS (SELECT coalesce(sum(party), 0)::bigint AS people FROM reservation WHERE slot_id = $1::bigint \
     AND status IN ('TEMPORARY', 'CONFIRMED', 'PREPAY_CONFIRM', 'REFUND_PENDING') \
     AND (status <> 'TEMPORARY' OR expires_at > $8::bigint)), made AS (",
    insert_from!("held WHERE people + $2::bigint <= $3::bigint"),
    ") SELECT people, EXISTS (SELECT FROM made) FROM held"
);
const BOOK_BY_COUNT: &str = concat!(
    "WITH held AS (SELECT taken FROM slot WHERE id = $1::bigint), moved AS (UPDATE slot SET taken = taken + $2::bigint \
     WHERE id = $1 AND taken + $2 <= $3::bigint RETURNING 1), made AS (",
    insert_from!("moved"),
    ") SELECT coalesce((SELECT taken FROM held), 0), EXISTS (SELECT FROM made)"
);

const PAY: &str = "WITH paid AS (UPDATE reservation r SET status = 'CONFIRMED', paid = price, version = r.version + 1 \
     FROM wallet w WHERE r.id = $1 AND r.person = $2 AND r.status = 'TEMPORARY' AND r.expires_at > $3 \
     AND w.person = $2 AND w.balance >= r.price RETURNING r.slot_id, r.party, r.price), \
     purse AS (UPDATE wallet SET balance = balance - price, version = version + 1 FROM paid WHERE person = $2 \
     RETURNING balance), \
     entry AS (INSERT INTO wallet_entry (person, amount, balance, kind, reservation, at) \
     SELECT $2, -price, balance, 'payment', $1, $3 FROM purse, paid) \
     SELECT slot_id, party FROM paid";
/// All of it comes back: whoever cancels here does so the day before.
const CANCEL: &str = "WITH gone AS (UPDATE reservation SET status = CASE WHEN paid > 0 THEN 'REFUNDED' ELSE 'CANCELED' END, \
     refunded = paid, version = version + 1 WHERE id = $1 AND person = $2 AND status IN ('TEMPORARY', 'CONFIRMED') \
     RETURNING slot_id, party, paid), \
     purse AS (UPDATE wallet SET balance = balance + paid, version = version + 1 FROM gone \
     WHERE person = $2 AND paid > 0 RETURNING balance), \
     entry AS (INSERT INTO wallet_entry (person, amount, balance, kind, reservation, at) \
     SELECT $2, paid, balance, 'refund', $1, $3 FROM purse, gone) \
     SELECT slot_id, party FROM gone";
const UNCOUNT: &str = "UPDATE slot SET taken = taken - r.party FROM reservation r \
     WHERE slot.id = r.slot_id AND r.id = $1 AND r.person = $2 AND r.status IN ('TEMPORARY', 'CONFIRMED')";
const CHARGE: &str = "WITH purse AS (INSERT INTO wallet (person, balance, version) VALUES ($1, $2, 1) \
     ON CONFLICT (person) DO UPDATE SET balance = wallet.balance + $2, version = wallet.version + 1 RETURNING balance) \
     INSERT INTO wallet_entry (person, amount, balance, kind, at) SELECT $1, $2, balance, 'charge', $3 FROM purse \
     RETURNING id, balance";
const TAKEN: &str = "SELECT slot_id, sum(party)::bigint FROM reservation WHERE slot_id BETWEEN $1 AND $2 \
     AND status IN ('TEMPORARY', 'CONFIRMED', 'PREPAY_CONFIRM', 'REFUND_PENDING') \
     AND (status <> 'TEMPORARY' OR expires_at > $3) GROUP BY slot_id";

const OF_PERSON: &str = "SELECT id, slot_id, status, party, created_at, expires_at FROM reservation WHERE person = $1 \
     ORDER BY created_at DESC LIMIT 50";

/// A reservation, as its guest finds it.
pub(super) struct Owned {
    pub id: ReservationId,
    pub slot: SlotId,
    pub status: String,
    pub party: i64,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
}

/// A hold that was just made.
pub(super) struct Held {
    pub id: ReservationId,
    pub price: i64,
    pub expires_at: Timestamp,
}

/// What came of a wish.
pub(super) enum Booked {
    Held(Held),
    Full { remaining: i64 },
    Already,
}

type Values<'a> = &'a [&'a (dyn ToSql + Sync)];

impl Desk {
    /// One place for a party, if there is room.
    pub(super) async fn book(&self, person: PersonId, slot: SlotId, party: u32) -> Result<Booked> {
        let (now, party) = (Timestamp::now(), i64::from(party));
        let (at, id, slot) = (now.as_millisecond(), maitred::fresh::reservation_id(now), slot.to_i64());
        let (price, ends) = (party * DEPOSIT, at + HOLD_MS);
        let (wide, guest) = (Wide(id.0), Wide(person.0));
        let book = if self.tally == Tally::Sum { BOOK_BY_SUM } else { BOOK_BY_COUNT };
        let values: Values<'_> = &[&slot, &party, &self.capacity, &wide, &guest, &price, &ends, &at];
        self.ensure(slot).await?;
        let rows = match self.exchange((LOCK, &[&slot]), None, (book, values)).await? {
            Err(error) if error.code() == Some(&SqlState::UNIQUE_VIOLATION) => return Ok(Booked::Already),
            done => done?,
        };
        let row = rows.first().ok_or("a booking that says nothing")?;
        if row.try_get(1)? {
            let expires_at = Timestamp::from_millisecond(ends)?;
            return Ok(Booked::Held(Held { id, price, expires_at }));
        }
        Ok(Booked::Full { remaining: self.capacity - row.try_get::<_, i64>(0)? })
    }

    /// Makes a slot's row before the first transaction that locks it: a lock on nothing protects nothing.
    async fn ensure(&self, slot: i64) -> Result<()> {
        let known = || self.slots.lock().map_err(|_| "somebody panicked");
        if !known()?.contains(&slot) {
            self.ask(CREATE, &[&slot]).await?;
            known()?.insert(slot);
        }
        Ok(())
    }

    /// Pays a hold out of the wallet; the slot and the party, unless it cannot be paid.
    pub(super) async fn pay(&self, person: PersonId, id: ReservationId) -> Result<Option<(SlotId, i64)>> {
        let (wide, guest, at) = (Wide(id.0), Wide(person.0), Timestamp::now().as_millisecond());
        let done = self.exchange((LOCK_SLOT_OF, &[&wide]), None, (PAY, &[&wide, &guest, &at])).await?;
        of_slot(&done?)
    }

    /// Gives a place up; the slot and the party, unless there is no such place.
    pub(super) async fn cancel(&self, person: PersonId, id: ReservationId) -> Result<Option<(SlotId, i64)>> {
        let (wide, guest, at) = (Wide(id.0), Wide(person.0), Timestamp::now().as_millisecond());
        let values: Values<'_> = &[&wide, &guest, &at];
        let uncount = (self.tally == Tally::Kept).then_some((UNCOUNT, &values[..2]));
        let done = self.exchange((LOCK_SLOT_OF, &[&wide]), uncount, (CANCEL, values)).await?;
        of_slot(&done?)
    }

    /// Puts points into a wallet; the entry and the balance.
    pub(super) async fn charge(&self, person: PersonId, amount: i64) -> Result<(i64, i64)> {
        let at = Timestamp::now().as_millisecond();
        let rows = self.ask(CHARGE, &[&Wide(person.0), &amount, &at]).await?;
        let row = rows.first().ok_or("a charge that says nothing")?;
        Ok((row.try_get(0)?, row.try_get(1)?))
    }

    /// How many people hold places in the slots of a day.
    pub(super) async fn taken(&self, (first, last): (SlotId, SlotId)) -> Result<Vec<(SlotId, i64)>> {
        let at = Timestamp::now().as_millisecond();
        let rows = self.ask(TAKEN, &[&first.to_i64(), &last.to_i64(), &at]).await?;
        rows.iter().map(|row| Ok((SlotId::from_i64(row.try_get(0)?), row.try_get(1)?))).collect()
    }

    /// What somebody has.
    pub(super) async fn of(&self, person: PersonId) -> Result<Vec<Owned>> {
        let rows = self.ask(OF_PERSON, &[&Wide(person.0)]).await?;
        let read = |row: &Row| {
            Ok(Owned {
                id: ReservationId(row.try_get::<_, Wide>(0)?.0),
                slot: SlotId::from_i64(row.try_get(1)?),
                status: row.try_get(2)?,
                party: row.try_get(3)?,
                created_at: Timestamp::from_millisecond(row.try_get(4)?)?,
                expires_at: Timestamp::from_millisecond(row.try_get(5)?)?,
            })
        };
        rows.iter().map(read).collect()
    }

    /// Whether the database answers.
    pub(super) async fn is_ready(&self) -> bool {
        self.ask("SELECT 1", &[]).await.is_ok()
    }

    async fn ask(&self, sql: &str, values: Values<'_>) -> Result<Vec<Row>> {
        let client = self.pool.get().await?;
        let statement = client.prepare_cached(sql).await?;
        Ok(client.query(&statement, values).await?)
    }

    /// BEGIN, the lock, what is done under it, and COMMIT, in one exchange; what the last statement said. Once one
    /// fails, PostgreSQL refuses the rest and takes the COMMIT for a ROLLBACK.
    async fn exchange(
        &self,
        lock: (&str, Values<'_>),
        between: Option<(&str, Values<'_>)>,
        act: (&str, Values<'_>),
    ) -> Result<std::result::Result<Vec<Row>, Error>> {
        let client = self.pool.get().await?;
        let first = client.prepare_cached(lock.0).await?;
        let second = match between {
            Some((sql, values)) => Some((client.prepare_cached(sql).await?, values)),
            None => None,
        };
        let third = client.prepare_cached(act.0).await?;
        let between = async {
            match &second {
                Some((statement, values)) => client.query(statement, values).await.map(drop),
                None => Ok(()),
            }
        };
        // The first look at each sends it, so they go out in this order.
        let (begun, locked, cleared, done, ended) = tokio::join!(
            biased;
            client.batch_execute("BEGIN"),
            client.query(&first, lock.1),
            between,
            client.query(&third, act.1),
            client.batch_execute("COMMIT"),
        );
        Ok(begun.and(locked).and(cleared).and(done).and_then(|rows| ended.map(|()| rows)))
    }
}

fn of_slot(rows: &[Row]) -> Result<Option<(SlotId, i64)>> {
    rows.first().map(|row| Ok((SlotId::from_i64(row.try_get(0)?), row.try_get(1)?))).transpose()
}
