//! Bringing the database to this version's schema, whoever else starts at the same moment.

use super::connect::Connector;
use super::{Options, Postgres};
use crate::error::Error;

mod embedded {
    refinery::embed_migrations!("migrations/postgres");
}

/// The advisory lock of whoever migrates: "maitred" in ASCII.
const MIGRATING: i64 = 0x006d_6169_7472_6564;

impl Postgres {
    /// Brings the database to this version's schema; names the steps that were taken.
    pub(crate) async fn migrate(options: &Options) -> Result<Vec<String>, Error> {
        let (mut client, task) = Connector::migrating(options)?.connect().await?;
        // Held until the connection closes. Whoever comes second waits here, and then finds nothing to do.
        client.query("SELECT pg_advisory_lock($1)", &[&MIGRATING]).await?;
        // One transaction for the steps and their record: a crash in between leaves neither.
        let runner = embedded::migrations::runner().set_grouped(true);
        let report = runner.run_async(&mut client).await.map_err(Error::unavailable)?;
        drop(client);
        // Ends when the server has been told.
        let _ = task.await;
        Ok(report.applied_migrations().iter().map(|step| step.to_string()).collect())
    }
}
