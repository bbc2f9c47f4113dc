//! Secrets that all processes over one database share.

use tokio::task::JoinHandle;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use super::Options;
use super::connect::Connector;
use crate::error::Error;

/// A connection for a moment.
struct Visit {
    client: Client,
    task: JoinHandle<()>,
}

impl Visit {
    async fn to(options: &Options) -> Result<Self, Error> {
        let (client, task) = Connector::new(options)?.connect().await?;
        Ok(Self { client, task })
    }

    /// Ends when the server has been told.
    async fn end(self) {
        drop(self.client);
        let _ = self.task.await;
    }

    /// The keys, the newest first; `fresh` is kept from now on where there is none.
    async fn keys(&self, fresh: [u8; 32]) -> Result<Vec<Vec<u8>>, Error> {
        let keep = "INSERT INTO secret (name, value) VALUES ('signing-key', $1) ON CONFLICT DO NOTHING";
        self.client.execute(keep, &[&fresh.as_slice()]).await.map_err(|error| match error.code() {
            Some(&SqlState::UNDEFINED_TABLE) => {
                Error::Unfit("it has no tables of maitred yet; run maitred migrate")
            }
            _ => error.into(),
        })?;
        let sql =
            "SELECT value FROM secret WHERE name IN ('signing-key', 'signing-key-before') ORDER BY name";
        let rows = self.client.query(sql, &[]).await?;
        let unreadable = |_| Error::Unreadable { what: "the signing key" };
        rows.iter().map(|row| row.try_get(0).map_err(unreadable)).collect()
    }
}

/// The keys that sign tokens, the newest first: those that are kept, or else `fresh`, which is kept from now on. Of processes
/// that come at the same moment one is first, and all get its key. The database must have been migrated.
pub async fn signing_keys(options: &Options, fresh: [u8; 32]) -> Result<Vec<Vec<u8>>, Error> {
    let visit = Visit::to(options).await?;
    let keys = visit.keys(fresh).await;
    visit.end().await;
    keys
}

/// Puts a new key in front of the one that is kept; the one before that is forgotten.
pub async fn rotate_signing_key(options: &Options, fresh: [u8; 32]) -> Result<(), Error> {
    let mut visit = Visit::to(options).await?;
    visit.keys(fresh).await?;
    let transaction = visit.client.transaction().await?;
    let lock = "SELECT FROM secret WHERE name = 'signing-key' FOR UPDATE";
    transaction.query(lock, &[]).await?;
    let keep = "INSERT INTO secret (name, value) SELECT 'signing-key-before', value FROM secret \
                WHERE name = 'signing-key' AND value <> $1 ON CONFLICT (name) DO UPDATE SET value = excluded.value";
    transaction.execute(keep, &[&fresh.as_slice()]).await?;
    let replace = "UPDATE secret SET value = $1 WHERE name = 'signing-key'";
    transaction.execute(replace, &[&fresh.as_slice()]).await?;
    transaction.commit().await?;
    visit.end().await;
    Ok(())
}
