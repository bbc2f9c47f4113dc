//! The third contender of the race: a row lock, and nothing else.
//!
//! What most people build first, as well as we can build it. Each request is one transaction that locks the slot's row,
//! counts, inserts and commits, over PostgreSQL's own protocol with prepared statements and a pool. So that the
//! comparison is about locks and not about care:
//!
//! * the schema and its indexes are maitred's own, of [`store`]'s migrations; the log of decisions is not written, and a
//!   reservation's ticket is its id;
//! * a transaction is sent whole, so that the lock is held for no longer than PostgreSQL needs, never for the way to the
//!   program and back;
//! * guests are believed: their tokens are hashed, not verified, and dates are not checked against the venue's times;
//! * places are counted as people write it, by a sum over the slot's reservations, or kept in the slot's row ([`Tally`]),
//!   which does not grow slower as the slot fills, at the price of a count that nothing but care keeps true.
//!
//! A hold that has run out is free for everybody but its own guest; a kept count gives it back only when it is cancelled.
//! Holds last seven minutes, which is longer than any run.

mod http;
mod sql;
mod wide;

use std::collections::HashSet;
use std::str::FromStr;
use std::sync::{Arc, Mutex};

use deadpool_postgres::{Manager, ManagerConfig, Pool, RecyclingMethod};
use tokio_postgres::NoTls;

use crate::{Result, served};

/// Connections to PostgreSQL. A hot slot is passed on from one to the next whatever their number; cold slots share a sync
/// the better the more of them there are.
pub const CONNECTIONS: usize = 16;
/// As the store asks for: a plan that was made while the table was small must not read all of it later.
const OPTIONS: &str = "-c enable_seqscan=off";

/// How the places that are taken are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tally {
    /// Summed up in each transaction.
    Sum,
    /// Kept in the slot's row.
    Kept,
}

impl Tally {
    /// As [`serve`]'s caller writes it on a command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Kept => "kept",
        }
    }
}

impl FromStr for Tally {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        [Self::Sum, Self::Kept]
            .into_iter()
            .find(|tally| tally.as_str() == text)
            .ok_or_else(|| format!("a tally is sum or kept, not {text}"))
    }
}

/// What a server of this kind is: its database, and the rule.
struct Desk {
    pool: Pool,
    capacity: i64,
    tally: Tally,
    /// Slots that are known to have a row.
    slots: Mutex<HashSet<i64>>,
}

/// Serves a database that has the store's schema, until whoever started this program closes the pipe, or kills it.
pub async fn serve(database: &str, tally: Tally, capacity: u32, connections: usize) -> Result<()> {
    let mut config: tokio_postgres::Config = database.parse()?;
    config.options(OPTIONS).application_name("row lock");
    let manager =
        Manager::from_config(config, NoTls, ManagerConfig { recycling_method: RecyclingMethod::Fast });
    let pool = Pool::builder(manager).max_size(connections).build()?;
    if tally == Tally::Kept {
        let kept = "ALTER TABLE slot ADD COLUMN IF NOT EXISTS taken bigint NOT NULL DEFAULT 0";
        pool.get().await?.batch_execute(kept).await?;
    }
    let desk = Arc::new(Desk { pool, capacity: i64::from(capacity), tally, slots: Mutex::default() });
    served::serve_router(http::router(desk)).await
}
