//! People with a password.

use booking::PersonId;
use jiff::Timestamp;

use super::Postgres;
use super::columns::{Columns, Wide, text};
use crate::error::{Error, Unique};
use crate::records::{Account, AccountError};

impl Postgres {
    /// Makes an account, if nobody signs in with its address yet.
    pub(crate) async fn add_account(&self, account: Account, at: Timestamp) -> Result<(), AccountError> {
        let sql =
            "INSERT INTO account (id, email, name, password_hash, created_at) VALUES ($1, $2, $3, $4, $5)";
        let Account { id, email, name, password_hash } = &account;
        let added = self
            .ask(sql, &[&Wide(id.0), &text(email), &text(name), password_hash, &at.as_millisecond()])
            .await;
        match added {
            Ok(_) => Ok(()),
            Err(failed) if Unique::named(&failed) == Some(Unique::Email) => Err(AccountError::EmailTaken),
            Err(failed) => Err(AccountError::Store(failed.into())),
        }
    }

    /// The account that signs in with this address.
    pub(crate) async fn account_by_email(&self, email: String) -> Result<Option<Account>, Error> {
        let sql = "SELECT id, email, name, password_hash FROM account \
                   WHERE lower(email COLLATE \"C\") = lower($1 COLLATE \"C\")";
        let rows = self.ask(sql, &[&text(&email)]).await?;
        let account = |row| {
            let mut columns = Columns::of(row, "an account");
            Ok(Account {
                id: PersonId(columns.id()?),
                email: columns.take()?,
                name: columns.take()?,
                password_hash: columns.take()?,
            })
        };
        rows.first().map(account).transpose()
    }
}
