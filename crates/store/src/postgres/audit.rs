//! A server's database as the auditor reads it: in one read-only transaction that sees one instant. A replica will do.

use std::collections::BTreeMap;

use ::audit::{
    Batch, Entry, Id, Opening, Payment, PersonRows, Reservation, Slot, SlotRows, Ticket, Token, Venue,
    Waiting,
};
use tokio::task::JoinHandle;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row};

use super::Options;
use super::columns::{Columns, Wide};
use super::connect::Connector;
use crate::audit::{PEOPLE, labels};
use crate::error::Error;

pub(crate) struct Snapshot {
    client: Client,
    connection: JoinHandle<()>,
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

/// The columns of a reservation, which [`reservation`] reads.
macro_rules! reservations_where {
    ($condition:literal) => {
        concat!(
            "SELECT id, slot_id, person, status, party, table_no, payment, price, paid, refunded, refund_due, \
             expires_at, ticket, reseats, seats, offered FROM reservation WHERE ",
            $condition
        )
    };
}

fn reservation(row: &Row) -> Result<Reservation, Error> {
    let mut columns = Columns::of(row, "a reservation");
    Ok(Reservation {
        id: Id(columns.id()?),
        slot: Slot(columns.take()?),
        person: Id(columns.id()?),
        status: columns.take()?,
        party: columns.take()?,
        table: columns.take()?,
        payment: columns.take()?,
        price: columns.take()?,
        paid: columns.take()?,
        refunded: columns.take()?,
        refund_due: columns.take()?,
        expires_at: columns.take()?,
        ticket: Ticket(columns.id()?),
        reseats: columns.optional_id()?.map(Id),
        seats: labels(columns.take()?),
        offered: columns.take()?,
    })
}

impl Snapshot {
    pub(crate) async fn open(options: &Options) -> Result<Self, Error> {
        let (client, connection) = Connector::auditing(options)?.connect().await?;
        let snapshot = Self { client, connection };
        snapshot.client.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?;
        let sql = "SELECT count(*) FROM unnest(ARRAY['venue', 'slot', 'reservation', 'decision', 'request_key', \
                   'wallet', 'wallet_entry', 'waiting', 'held_seat', 'payment', 'refund', 'opening', 'queue_token']) AS name \
                   WHERE to_regclass(name) IS NOT NULL";
        match snapshot.client.query_one(sql, &[]).await?.try_get(0) {
            Ok(13_i64) => Ok(snapshot),
            _ => Err(Error::Unfit("it has not all tables of maitred; run maitred migrate")),
        }
    }

    async fn ask(&self, sql: &str, values: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, Error> {
        Ok(self.client.query(sql, values).await?)
    }
}

impl crate::audit::Snapshot for Snapshot {
    async fn now(&mut self) -> Result<i64, Error> {
        let sql = "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint";
        let row = self.client.query_one(sql, &[]).await?;
        Columns::of(&row, "the clock").take()
    }

    async fn venues(&mut self) -> Result<Vec<Venue>, Error> {
        let rows = self.ask("SELECT id, version, settings FROM venue ORDER BY id", &[]).await?;
        let venue = |row: &Row| {
            let mut columns = Columns::of(row, "a venue");
            let id: i32 = columns.take()?;
            Ok(Venue { id: id.into(), version: columns.take()?, settings: columns.take()? })
        };
        rows.iter().map(venue).collect()
    }

    async fn next_slot(&mut self, after: Slot, last: Slot) -> Result<Option<Slot>, Error> {
        let sql = "SELECT min(id) FROM (SELECT min(id) AS id FROM slot WHERE id > $1 AND id <= $2 \
                   UNION ALL SELECT min(slot_id) FROM reservation WHERE slot_id > $1 AND slot_id <= $2 \
                   UNION ALL SELECT min(slot_id) FROM decision WHERE slot_id > $1 AND slot_id <= $2) AS next";
        let rows = self.ask(sql, &[&after.0, &last.0]).await?;
        let next = rows.first().map_or(Ok(None), |row| Columns::of(row, "a slot").take::<Option<i64>>())?;
        Ok(next.map(Slot))
    }

    async fn slot(&mut self, slot: Slot) -> Result<SlotRows, Error> {
        let version = self.ask("SELECT version FROM slot WHERE id = $1", &[&slot.0]).await?;
        let version = version.first().map(|row| Columns::of(row, "a slot").take()).transpose()?;
        let (first, last) = slot.tickets();
        let here = self.ask(reservations_where!("slot_id = $1"), &[&slot.0]).await?;
        let sql = reservations_where!("ticket BETWEEN $1 AND $2 AND slot_id <> $3");
        let made = self.ask(sql, &[&Wide(first.0), &Wide(last.0), &slot.0]).await?;
        let sql = "SELECT version, decided_at, decisions FROM decision WHERE slot_id = $1 ORDER BY version";
        let batch = |row: &Row| {
            let mut columns = Columns::of(row, "the decision log");
            let (version, decided_at) = (columns.take()?, columns.take()?);
            Ok(Batch { version, decided_at, decisions: columns.take()? })
        };
        let batches = self.ask(sql, &[&slot.0]).await?;
        let sql = "SELECT person, party, rank, passed, ticket FROM waiting WHERE slot_id = $1 ORDER BY rank";
        let waiting = |row: &Row| {
            let mut columns = Columns::of(row, "a party on a waitlist");
            let person = Id(columns.id()?);
            let (party, rank, passed) = (columns.take()?, columns.take()?, columns.take()?);
            Ok(Waiting { person, party, rank, passed, ticket: Ticket(columns.id()?) })
        };
        let listed = self.ask(sql, &[&slot.0]).await?;
        let seat = |row: &Row| {
            let mut columns = Columns::of(row, "a seat");
            Ok((columns.take()?, Id(columns.id()?)))
        };
        let sql = "SELECT seat, reservation FROM held_seat WHERE slot_id = $1";
        let seats = self.ask(sql, &[&slot.0]).await?;
        Ok(SlotRows {
            version,
            reservations: here.iter().chain(&made).map(reservation).collect::<Result<_, Error>>()?,
            batches: batches.iter().map(batch).collect::<Result<_, Error>>()?,
            waiting: listed.iter().map(waiting).collect::<Result<_, Error>>()?,
            seats: seats.iter().map(seat).collect::<Result<_, Error>>()?,
        })
    }

    async fn openings(&mut self, venue: Option<i64>) -> Result<Vec<Opening>, Error> {
        let sql = "SELECT id, venue_id::bigint, largest, by_order, seed, seed_hash, opened_at IS NOT NULL, entrants, \
                   arrivals, numbers, let_in FROM opening WHERE $1::bigint IS NULL OR venue_id = $1 ORDER BY id";
        let opening = |row: &Row| {
            let mut columns = Columns::of(row, "an opening");
            Ok(Opening {
                id: columns.take()?,
                venue: columns.take()?,
                largest: columns.take()?,
                order: columns.take()?,
                seed: columns.take()?,
                seed_hash: columns.take()?,
                opened: columns.take()?,
                entrants: columns.take()?,
                arrivals: columns.take()?,
                numbers: columns.take()?,
                let_in: columns.take()?,
            })
        };
        self.ask(sql, &[&venue]).await?.iter().map(opening).collect()
    }

    async fn tokens(&mut self, opening: i64) -> Result<Vec<Token>, Error> {
        let sql = "SELECT arrival, person, number, state, let_in_at, ended_at FROM queue_token \
                   WHERE opening_id = $1 ORDER BY arrival";
        let token = |row: &Row| {
            let mut columns = Columns::of(row, "a token");
            Ok(Token {
                arrival: columns.take()?,
                person: Id(columns.id()?),
                number: columns.take()?,
                state: columns.take()?,
                let_in_at: columns.take()?,
                ended_at: columns.take()?,
            })
        };
        self.ask(sql, &[&opening]).await?.iter().map(token).collect()
    }

    async fn people(&mut self, after: Option<Id>) -> Result<Vec<(Id, PersonRows)>, Error> {
        let next = |table| {
            format!(
                "(SELECT DISTINCT person FROM {table} WHERE $1::uuid IS NULL OR person > $1 ORDER BY person LIMIT $2)"
            )
        };
        let tables =
            ["wallet", "wallet_entry", "reservation", "request_key", "payment"].map(next).join(" UNION ");
        let sql = format!("SELECT person FROM ({tables}) AS next ORDER BY person LIMIT $2");
        let after = after.map(|id| Wide(id.0));
        let next = self.ask(&sql, &[&after, &PEOPLE]).await?;
        let ids = next.iter().map(|row| Columns::of(row, "a person").id()).collect::<Result<Vec<_>, _>>()?;
        let (Some(first), Some(last)) = (ids.first(), ids.last()) else { return Ok(Vec::new()) };
        let range: [&(dyn ToSql + Sync); 2] = [&Wide(*first), &Wide(*last)];
        let mut people: BTreeMap<Id, PersonRows> = BTreeMap::new();
        for row in
            &self.ask("SELECT person, balance FROM wallet WHERE person BETWEEN $1 AND $2", &range).await?
        {
            let mut columns = Columns::of(row, "a wallet");
            let person = Id(columns.id()?);
            people.entry(person).or_default().balance = columns.take()?;
        }
        let sql = "SELECT person, id, amount, balance, kind, reservation, key FROM wallet_entry \
                   WHERE person BETWEEN $1 AND $2 ORDER BY person, id";
        for row in &self.ask(sql, &range).await? {
            let mut columns = Columns::of(row, "a movement of money");
            people.entry(Id(columns.id()?)).or_default().entries.push(Entry {
                id: columns.take()?,
                amount: columns.take()?,
                balance: columns.take()?,
                kind: columns.take()?,
                reservation: columns.optional_id()?.map(Id),
                key: columns.take()?,
            });
        }
        for row in &self.ask(reservations_where!("person BETWEEN $1 AND $2"), &range).await? {
            let row = reservation(row)?;
            people.entry(row.person).or_default().reservations.push(row);
        }
        let sql = "SELECT person, key, ticket FROM request_key WHERE person BETWEEN $1 AND $2";
        for row in &self.ask(sql, &range).await? {
            let mut columns = Columns::of(row, "a key");
            let (person, key) = (Id(columns.id()?), columns.take()?);
            people.entry(person).or_default().keys.push((key, Ticket(columns.id()?)));
        }
        let sql = "SELECT p.person, p.id, p.status, p.captured, p.pays, \
                   coalesce((SELECT sum(amount) FROM refund WHERE payment = p.id AND status = 'RETURNED'), 0)::bigint, \
                   coalesce((SELECT sum(amount) FROM refund WHERE payment = p.id AND status = 'DUE'), 0)::bigint \
                   FROM payment p WHERE p.person BETWEEN $1 AND $2";
        for row in &self.ask(sql, &range).await? {
            let mut columns = Columns::of(row, "a payment");
            people.entry(Id(columns.id()?)).or_default().payments.push(Payment {
                id: Id(columns.id()?),
                status: columns.take()?,
                captured: columns.take()?,
                pays: columns.optional_id()?.map(Id),
                returned: columns.take()?,
                due: columns.take()?,
            });
        }
        Ok(people.into_iter().collect())
    }
}
