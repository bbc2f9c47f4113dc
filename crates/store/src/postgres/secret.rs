//! Secrets that all processes over one database share.

use tokio_postgres::error::SqlState;

use super::Options;
use super::connect::Connector;
use crate::error::Error;

/// The key that signs access tokens: the one that is kept, or else `fresh`, which is kept from now on. Of processes that
/// come at the same moment one is first, and all get its key. The database must have been migrated.
pub async fn signing_key(options: &Options, fresh: [u8; 32]) -> Result<Vec<u8>, Error> {
    let (client, task) = Connector::new(options)?.connect().await?;
    let keep = "INSERT INTO secret (name, value) VALUES ('signing-key', $1) ON CONFLICT DO NOTHING";
    client.execute(keep, &[&fresh.as_slice()]).await.map_err(|error| match error.code() {
        Some(&SqlState::UNDEFINED_TABLE) => {
            Error::Unfit("it has no tables of maitred yet; run maitred migrate")
        }
        _ => error.into(),
    })?;
    let sql = "SELECT value FROM secret WHERE name = 'signing-key'";
    let row = client.query_one(sql, &[]).await?;
    drop(client);
    // Ends when the server has been told.
    let _ = task.await;
    row.try_get(0).map_err(|_| Error::Unreadable { what: "the signing key" })
}
