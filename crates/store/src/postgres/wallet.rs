//! Wallets: balances, charges and the ledger.

use booking::wallet::MAX_BALANCE;
use booking::{PersonId, ReservationId, Won};
use jiff::Timestamp;
use tokio_postgres::Row;

use super::Postgres;
use super::columns::{Columns, Wide, text};
use super::session::Step;
use crate::error::{Error, Unique, reason};
use crate::records::{ChargeError, Entry, Page};

impl Postgres {
    /// What a person's wallet holds.
    pub(crate) async fn balance(&self, person: PersonId) -> Result<Won, Error> {
        let rows = self.ask("SELECT balance FROM wallet WHERE person = $1", &[&Wide(person.0)]).await?;
        rows.first().map_or(Ok(Won::ZERO), |row| Columns::of(row, "a wallet").won())
    }

    /// Puts points into a wallet; with a key, once.
    pub(crate) async fn charge(
        &self,
        person: PersonId,
        amount: Won,
        key: Option<String>,
        at: Timestamp,
    ) -> Result<Entry, ChargeError> {
        let add = "INSERT INTO wallet (person, balance, version) VALUES ($1, $2, 1) ON CONFLICT (person) \
                   DO UPDATE SET balance = wallet.balance + $2, version = wallet.version + 1";
        // The row is ours since the statement before: what it says now is what this charge made of it.
        let enter = "INSERT INTO wallet_entry (person, amount, balance, kind, key, at) \
                     SELECT person, $2::bigint, CASE WHEN balance <= $3 THEN balance ELSE refuse($4) END, 'charge', $5::text, \
                     $6::bigint \
                     FROM wallet WHERE person = $1 RETURNING id, amount, balance, kind, reservation, at";
        let (who, key, at) = (Wide(person.0), key.as_deref().map(text), at.as_millisecond());
        let steps = [
            Step::new(add, &[&who, &amount.0]),
            Step::new(enter, &[&who, &amount.0, &MAX_BALANCE.0, &reason::TOO_MUCH, &key, &at]),
        ];
        let failed = match self.transact(&steps).await {
            Ok(rows) => {
                return Ok(rows[1].first().map(entry).ok_or(Error::Unreadable { what: "a charge" })??);
            }
            Err(failed) => failed,
        };
        let too_much = failed.refused().is_some_and(|(reason, _)| reason == reason::TOO_MUCH);
        if !too_much && Unique::named(&failed) != Some(Unique::ChargeKey) {
            return Err(Error::from(failed).into());
        }
        // A key that was used is answered as it was then, however full the wallet is by now.
        match (self.charged(who, key.as_deref()).await?, too_much) {
            (Some(before), _) if before.amount == amount => Ok(before),
            (Some(_), _) => Err(ChargeError::KeyUsed),
            (None, true) => Err(ChargeError::TooMuch),
            (None, false) => Err(Error::from(failed).into()),
        }
    }

    async fn charged(&self, person: Wide, key: Option<&str>) -> Result<Option<Entry>, Error> {
        let sql = "SELECT id, amount, balance, kind, reservation, at FROM wallet_entry WHERE person = $1 AND key = $2";
        self.ask(sql, &[&person, &key]).await?.first().map(entry).transpose()
    }

    /// A wallet's movements, newest first, from before the cursor.
    pub(crate) async fn wallet_entries(
        &self,
        person: PersonId,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Page<Entry>, Error> {
        let sql = "SELECT id, amount, balance, kind, reservation, at FROM wallet_entry \
                   WHERE person = $1 AND ($2::bigint IS NULL OR id < $2) ORDER BY id DESC LIMIT $3";
        let rows = self.ask(sql, &[&Wide(person.0), &before, &(i64::from(limit) + 1)]).await?;
        let items = rows.iter().map(entry).collect::<Result<Vec<_>, _>>()?;
        Ok(Page::of(items, limit, |last| last.id.to_string()))
    }
}

fn entry(row: &Row) -> Result<Entry, Error> {
    let mut columns = Columns::of(row, "a movement");
    Ok(Entry {
        id: columns.take()?,
        amount: columns.won()?,
        balance: columns.won()?,
        kind: columns.name()?,
        reservation: columns.optional_id()?.map(ReservationId),
        at: columns.instant()?,
    })
}
