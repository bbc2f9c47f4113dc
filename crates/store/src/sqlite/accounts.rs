//! People with a password.

use booking::PersonId;
use jiff::Timestamp;
use rusqlite::{OptionalExtension, params};

use super::columns::Wide;
use super::{Sqlite, millis};
use crate::error::{Error, Unique};
use crate::records::{Account, AccountError};

impl Sqlite {
    /// Makes an account, if nobody signs in with its address yet.
    pub(crate) async fn add_account(&self, account: Account, at: Timestamp) -> Result<(), AccountError> {
        self.writer
            .run(move |connection| {
                let sql =
                    "INSERT INTO account (id, email, name, password_hash, created_at) VALUES (?, ?, ?, ?, ?)";
                let Account { id, email, name, password_hash } = &account;
                match connection.execute(sql, params![Wide(id.0), email, name, password_hash, millis(at)]) {
                    Ok(_) => Ok(()),
                    Err(error) if Unique::violated(&error) == Some(Unique::Email) => {
                        Err(AccountError::EmailTaken)
                    }
                    Err(error) => Err(AccountError::Store(error.into())),
                }
            })
            .await
    }

    /// The account that signs in with this address.
    pub(crate) async fn account_by_email(&self, email: String) -> Result<Option<Account>, Error> {
        self.readers
            .ask(move |connection| {
                let sql = "SELECT id, email, name, password_hash FROM account WHERE email = ?";
                let mut select = connection.prepare_cached(sql)?;
                let account = select.query_row([email], |row| {
                    Ok(Account {
                        id: PersonId(row.get::<_, Wide>(0)?.0),
                        email: row.get(1)?,
                        name: row.get(2)?,
                        password_hash: row.get(3)?,
                    })
                });
                Ok(account.optional()?)
            })
            .await
    }
}
