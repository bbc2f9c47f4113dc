//! Wallets: balances, charges and the ledger.

use booking::wallet::MAX_BALANCE;
use booking::{PersonId, ReservationId, Won};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::columns::{Instant, Wide, name};
use super::{Sqlite, millis};
use crate::error::Error;
use crate::records::{Charge, ChargeError, Entry, Page};

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

    /// Puts points into wallets, each charge as far as its wallet bears it; with a key, once.
    pub(crate) async fn charge_all(
        &self,
        charges: Vec<Charge>,
    ) -> Result<Vec<Result<Entry, ChargeError>>, Error> {
        self.writer
            .run(move |connection| charges.iter().map(|charge| charge_once(connection, charge)).collect())
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

fn charge_once(connection: &Connection, charge: &Charge) -> Result<Result<Entry, ChargeError>, Error> {
    let person = Wide(charge.person.0);
    if let Some(key) = &charge.key {
        let sql = format!("SELECT {ENTRY} FROM wallet_entry WHERE person = ? AND key = ?");
        let mut select = connection.prepare_cached(&sql)?;
        if let Some(before) = select.query_row(params![person, key], entry).optional()? {
            return Ok(if before.amount == charge.amount { Ok(before) } else { Err(ChargeError::KeyUsed) });
        }
    }
    let sql = "INSERT INTO wallet (person, balance, version) SELECT ?1, ?2, 1 WHERE ?2 <= ?3 ON CONFLICT (person) \
               DO UPDATE SET balance = balance + ?2, version = version + 1 WHERE balance + ?2 <= ?3 RETURNING balance";
    let mut add = connection.prepare_cached(sql)?;
    let balance: Option<i64> =
        add.query_row(params![person, charge.amount.0, MAX_BALANCE.0], |row| row.get(0)).optional()?;
    let Some(balance) = balance else { return Ok(Err(ChargeError::TooMuch)) };
    let sql = format!(
        "INSERT INTO wallet_entry (person, amount, balance, kind, key, at) VALUES (?, ?, ?, 'charge', ?, ?) \
         RETURNING {ENTRY}"
    );
    let values = params![person, charge.amount.0, balance, charge.key, millis(charge.at)];
    Ok(Ok(connection.prepare_cached(&sql)?.query_row(values, entry)?))
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
