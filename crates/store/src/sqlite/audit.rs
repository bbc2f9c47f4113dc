//! A file as the auditor reads it: in one read transaction, over a connection that cannot write.

use std::collections::BTreeMap;
use std::path::Path;

use ::audit::{
    Batch, Entry, Id, Opening, Payment, PersonRows, Reservation, Slot, SlotRows, Ticket, Token, Venue,
    Waiting,
};
use jiff::Timestamp;
use rusqlite::{Connection, OpenFlags, OptionalExtension, Row, params};

use super::columns::Wide;
use super::{STARTING, millis};
use crate::audit::{PEOPLE, labels};
use crate::error::Error;

pub(crate) struct Snapshot(Connection);

const RESERVATION: &str = "id, slot_id, person, status, party, table_no, payment, price, paid, refunded, refund_due, \
                           expires_at, ticket, reseats, seats, offered";

impl Snapshot {
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(STARTING)?;
        // The snapshot is the one of the first statement.
        connection.execute_batch("BEGIN")?;
        let sql = "SELECT count(*) FROM sqlite_schema WHERE name IN ('venue', 'slot', 'reservation', 'decision', \
                   'request_key', 'wallet', 'wallet_entry', 'waiting', 'held_seat', 'payment', 'refund', 'opening', \
                   'queue_token') AND type = 'table'";
        match connection.query_row(sql, [], |row| row.get(0))? {
            13 => Ok(Self(connection)),
            _ => Err(Error::Unfit("it has not all tables of maitred; run maitred migrate")),
        }
    }
}

fn reservation(row: &Row<'_>) -> rusqlite::Result<Reservation> {
    Ok(Reservation {
        id: id(row, 0)?,
        slot: Slot(row.get(1)?),
        person: id(row, 2)?,
        status: row.get(3)?,
        party: row.get(4)?,
        table: row.get(5)?,
        payment: row.get(6)?,
        price: row.get(7)?,
        paid: row.get(8)?,
        refunded: row.get(9)?,
        refund_due: row.get(10)?,
        expires_at: row.get(11)?,
        ticket: Ticket(id(row, 12)?.0),
        reseats: row.get::<_, Option<Wide>>(13)?.map(|id| Id(id.0)),
        seats: labels(row.get(14)?),
        offered: row.get(15)?,
    })
}

fn id(row: &Row<'_>, column: usize) -> rusqlite::Result<Id> {
    row.get::<_, Wide>(column).map(|id| Id(id.0))
}

impl crate::audit::Snapshot for Snapshot {
    async fn now(&mut self) -> Result<i64, Error> {
        Ok(millis(Timestamp::now()))
    }

    async fn venues(&mut self) -> Result<Vec<Venue>, Error> {
        let mut select = self.0.prepare("SELECT id, version, settings FROM venue ORDER BY id")?;
        let rows = select.query_map([], |row| {
            Ok(Venue { id: row.get(0)?, version: row.get(1)?, settings: row.get(2)? })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    async fn next_slot(&mut self, after: Slot, last: Slot) -> Result<Option<Slot>, Error> {
        let sql = "SELECT min(id) FROM (SELECT min(id) AS id FROM slot WHERE id > ?1 AND id <= ?2 \
                   UNION ALL SELECT min(slot_id) FROM reservation WHERE slot_id > ?1 AND slot_id <= ?2 \
                   UNION ALL SELECT min(slot_id) FROM decision WHERE slot_id > ?1 AND slot_id <= ?2)";
        let next: Option<i64> = self.0.prepare_cached(sql)?.query_row([after.0, last.0], |row| row.get(0))?;
        Ok(next.map(Slot))
    }

    async fn slot(&mut self, slot: Slot) -> Result<SlotRows, Error> {
        let version = self.0.prepare_cached("SELECT version FROM slot WHERE id = ?")?;
        let version = { version }.query_row([slot.0], |row| row.get(0)).optional()?;
        let (first, last) = slot.tickets();
        let sql = format!(
            "SELECT {RESERVATION} FROM reservation WHERE slot_id = ?1 UNION \
             SELECT {RESERVATION} FROM reservation WHERE ticket BETWEEN ?2 AND ?3"
        );
        let mut select = self.0.prepare_cached(&sql)?;
        let rows = select.query_map(params![slot.0, Wide(first.0), Wide(last.0)], reservation)?;
        let reservations = rows.collect::<Result<_, _>>()?;
        let sql = "SELECT version, decided_at, decisions FROM decision WHERE slot_id = ? ORDER BY version";
        let mut select = self.0.prepare_cached(sql)?;
        let rows = select.query_map([slot.0], |row| {
            Ok(Batch { version: row.get(0)?, decided_at: row.get(1)?, decisions: row.get(2)? })
        })?;
        let batches = rows.collect::<Result<_, _>>()?;
        let sql = "SELECT person, party, rank, passed, ticket FROM waiting WHERE slot_id = ? ORDER BY rank";
        let mut select = self.0.prepare_cached(sql)?;
        let rows = select.query_map([slot.0], |row| {
            let (party, rank, passed) = (row.get(1)?, row.get(2)?, row.get(3)?);
            Ok(Waiting { person: id(row, 0)?, party, rank, passed, ticket: Ticket(id(row, 4)?.0) })
        })?;
        let waiting = rows.collect::<Result<_, _>>()?;
        let mut select =
            self.0.prepare_cached("SELECT seat, reservation FROM held_seat WHERE slot_id = ?")?;
        let rows = select.query_map([slot.0], |row| Ok((row.get(0)?, id(row, 1)?)))?;
        Ok(SlotRows { version, reservations, batches, waiting, seats: rows.collect::<Result<_, _>>()? })
    }

    async fn openings(&mut self, venue: Option<i64>) -> Result<Vec<Opening>, Error> {
        let sql = "SELECT id, venue_id, largest, by_order, seed, seed_hash, opened_at IS NOT NULL, entrants, arrivals, \
                   numbers, let_in FROM opening WHERE ?1 IS NULL OR venue_id = ?1 ORDER BY id";
        let mut select = self.0.prepare_cached(sql)?;
        let rows = select.query_map([venue], |row| {
            Ok(Opening {
                id: row.get(0)?,
                venue: row.get(1)?,
                largest: row.get(2)?,
                order: row.get(3)?,
                seed: row.get(4)?,
                seed_hash: row.get(5)?,
                opened: row.get(6)?,
                entrants: row.get(7)?,
                arrivals: row.get(8)?,
                numbers: row.get(9)?,
                let_in: row.get(10)?,
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    async fn tokens(&mut self, opening: i64) -> Result<Vec<Token>, Error> {
        let sql = "SELECT arrival, person, number, state, let_in_at, ended_at FROM queue_token \
                   WHERE opening_id = ? ORDER BY arrival";
        let mut select = self.0.prepare_cached(sql)?;
        let rows = select.query_map([opening], |row| {
            Ok(Token {
                arrival: row.get(0)?,
                person: id(row, 1)?,
                number: row.get(2)?,
                state: row.get(3)?,
                let_in_at: row.get(4)?,
                ended_at: row.get(5)?,
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    async fn people(&mut self, after: Option<Id>) -> Result<Vec<(Id, PersonRows)>, Error> {
        // An empty blob comes before every id.
        let after = after.map_or(vec![], |id| id.0.to_be_bytes().to_vec());
        let next = |table| {
            format!(
                "SELECT * FROM (SELECT DISTINCT person FROM {table} WHERE person > ?1 ORDER BY person LIMIT ?2)"
            )
        };
        let tables =
            ["wallet", "wallet_entry", "reservation", "request_key", "payment"].map(next).join(" UNION ");
        let sql = format!("SELECT max(person) FROM (SELECT person FROM ({tables}) ORDER BY person LIMIT ?2)");
        let last: Option<Vec<u8>> =
            self.0.prepare_cached(&sql)?.query_row(params![after, PEOPLE], |row| row.get(0))?;
        let Some(last) = last else { return Ok(Vec::new()) };
        let mut people: BTreeMap<Id, PersonRows> = BTreeMap::new();
        let range = params![after, last];
        let mut select =
            self.0.prepare_cached("SELECT person, balance FROM wallet WHERE person > ?1 AND person <= ?2")?;
        let mut rows = select.query(range)?;
        while let Some(row) = rows.next()? {
            people.entry(id(row, 0)?).or_default().balance = row.get(1)?;
        }
        let mut select = self.0.prepare_cached(
            "SELECT person, id, amount, balance, kind, reservation, key FROM wallet_entry \
             WHERE person > ?1 AND person <= ?2 ORDER BY person, id",
        )?;
        let mut rows = select.query(range)?;
        while let Some(row) = rows.next()? {
            people.entry(id(row, 0)?).or_default().entries.push(Entry {
                id: row.get(1)?,
                amount: row.get(2)?,
                balance: row.get(3)?,
                kind: row.get(4)?,
                reservation: row.get::<_, Option<Wide>>(5)?.map(|id| Id(id.0)),
                key: row.get(6)?,
            });
        }
        let sql = format!("SELECT {RESERVATION} FROM reservation WHERE person > ?1 AND person <= ?2");
        let mut select = self.0.prepare_cached(&sql)?;
        for row in select.query_map(range, reservation)? {
            let row = row?;
            people.entry(row.person).or_default().reservations.push(row);
        }
        let mut select = self.0.prepare_cached(
            "SELECT person, key, ticket FROM request_key WHERE person > ?1 AND person <= ?2",
        )?;
        let mut rows = select.query(range)?;
        while let Some(row) = rows.next()? {
            let key = (row.get(1)?, Ticket(id(row, 2)?.0));
            people.entry(id(row, 0)?).or_default().keys.push(key);
        }
        let sql = "SELECT p.person, p.id, p.status, p.captured, p.pays, \
                   coalesce((SELECT sum(amount) FROM refund WHERE payment = p.id AND status = 'RETURNED'), 0), \
                   coalesce((SELECT sum(amount) FROM refund WHERE payment = p.id AND status = 'DUE'), 0) \
                   FROM payment p WHERE p.person > ?1 AND p.person <= ?2";
        let mut select = self.0.prepare_cached(sql)?;
        let mut rows = select.query(range)?;
        while let Some(row) = rows.next()? {
            people.entry(id(row, 0)?).or_default().payments.push(Payment {
                id: id(row, 1)?,
                status: row.get(2)?,
                captured: row.get(3)?,
                pays: row.get::<_, Option<Wide>>(4)?.map(|id| Id(id.0)),
                returned: row.get(5)?,
                due: row.get(6)?,
            });
        }
        Ok(people.into_iter().collect())
    }
}
