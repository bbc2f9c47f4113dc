//! Wallets: balances, charges and the ledger.

use booking::wallet::MAX_BALANCE;
use booking::{PersonId, ReservationId, Won};
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::columns::{Instant, Wide, name};
use super::{Sqlite, millis};
use crate::error::Error;
use crate::records::{ChargeError, Entry, Page};

const ENTRY: &str = "id, amount, balance, kind, reservation, at";

impl Sqlite {
    /// What a person's wallet holds.
    pub(crate) async fn balance(&self, person: PersonId) -> Result<Won, Error> {
        self.readers
            .ask(move |connection| {
                let mut select = connection.prepare_cached("SELECT balance FROM wallet WHERE person = ?")?;
                let balance = select.query_row([Wide(person.0)], |row| row.get(0)).optional()?;
                Ok(Won(balance.unwrap_or(0)))
            })
            .await
    }

    /// Puts points into a wallet; with a key, once.
    pub(crate) async fn charge(
        &self,
        person: PersonId,
        amount: Won,
        key: Option<String>,
        at: Timestamp,
    ) -> Result<Entry, ChargeError> {
        self.writer
            .run(move |connection| {
                if let Some(key) = &key
                    && let Some(before) = charged(connection, person, key)?
                {
                    return if before.amount == amount { Ok(before) } else { Err(ChargeError::KeyUsed) };
                }
                charge(connection, person, amount, key.as_deref(), at)
            })
            .await
    }

    /// A wallet's movements, newest first, from before the cursor.
    pub(crate) async fn wallet_entries(
        &self,
        person: PersonId,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Page<Entry>, Error> {
        self.readers
            .ask(move |connection| {
                let sql = format!(
                    "SELECT {ENTRY} FROM wallet_entry WHERE person = ?1 AND (?2 IS NULL OR id < ?2) \
                     ORDER BY id DESC LIMIT ?3"
                );
                let mut select = connection.prepare_cached(&sql)?;
                let rows = select.query_map(params![Wide(person.0), before, limit + 1], entry)?;
                let items = rows.collect::<Result<Vec<_>, _>>()?;
                Ok(Page::of(items, limit, |last| last.id.to_string()))
            })
            .await
    }
}

fn charged(connection: &Connection, person: PersonId, key: &str) -> Result<Option<Entry>, Error> {
    let sql = format!("SELECT {ENTRY} FROM wallet_entry WHERE person = ? AND key = ?");
    Ok(connection.prepare_cached(&sql)?.query_row(params![Wide(person.0), key], entry).optional()?)
}

fn charge(
    connection: &Connection,
    person: PersonId,
    amount: Won,
    key: Option<&str>,
    at: Timestamp,
) -> Result<Entry, ChargeError> {
    let sql = "INSERT INTO wallet (person, balance, version) VALUES (?1, ?2, 1) ON CONFLICT (person) \
               DO UPDATE SET balance = balance + ?2, version = version + 1 RETURNING balance";
    let mut add = connection.prepare_cached(sql).map_err(Error::from)?;
    let balance: i64 =
        add.query_row(params![Wide(person.0), amount.0], |row| row.get(0)).map_err(Error::from)?;
    if Won(balance) > MAX_BALANCE {
        return Err(ChargeError::TooMuch);
    }
    let sql = format!(
        "INSERT INTO wallet_entry (person, amount, balance, kind, key, at) VALUES (?, ?, ?, 'charge', ?, ?) \
         RETURNING {ENTRY}"
    );
    let values = params![Wide(person.0), amount.0, balance, key, millis(at)];
    Ok(connection.prepare_cached(&sql).map_err(Error::from)?.query_row(values, entry).map_err(Error::from)?)
}

fn entry(row: &Row<'_>) -> rusqlite::Result<Entry> {
    Ok(Entry {
        id: row.get(0)?,
        amount: Won(row.get(1)?),
        balance: Won(row.get(2)?),
        kind: name(row, 3)?,
        reservation: row.get::<_, Option<Wide>>(4)?.map(|id| ReservationId(id.0)),
        at: row.get::<_, Instant>(5)?.0,
    })
}
