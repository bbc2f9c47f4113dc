//! PostgreSQL and Redis on private ports, which every contender is run over, and a new database for every measurement.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use store::Store;
use store::postgres::Options;
use testkit::{Postgres, RedisServer};
use tokio::runtime::Runtime;

use crate::rows::settings_for;
use crate::{Result, machine};

/// Connections to PostgreSQL of each process of maitred.
pub const CONNECTIONS: usize = 4;
/// For everybody's tokens: what is measured is not who may come in.
pub const KEY: &str = "bWVhc3VyZS10aGVuLWNsYWltLW1lYXN1cmUtdGhlbi1jbGFpbQ";
/// A slot of so many places never sells out.
pub const ENDLESS: u32 = 1_000_000_000;

/// Takes maitred's keys away, a bounded number at a time.
const NO_LINES: &str = "local cursor = '0' repeat \
     local found = redis.call('SCAN', cursor, 'MATCH', 'maitred:*', 'COUNT', 1000) cursor = found[1] \
     for _, key in ipairs(found[2]) do redis.call('UNLINK', key) end until cursor == '0'";

/// The two servers, and what this program runs on.
pub struct World {
    /// Keeps the truth, with its usual settings.
    pub postgres: Postgres,
    /// Keeps the lines.
    pub redis: RedisServer,
    /// For this program's own part.
    pub runtime: Runtime,
    databases: AtomicU32,
}

impl World {
    /// Starts both.
    pub fn start() -> Result<Self> {
        Ok(Self {
            postgres: Postgres::start(),
            redis: RedisServer::start(),
            runtime: tokio::runtime::Builder::new_multi_thread().enable_all().build()?,
            databases: AtomicU32::new(0),
        })
    }

    /// A new database with one venue of so many places, and a Redis without lines; where it is, and a store over it.
    pub fn database(&self, capacity: u32) -> Result<(String, Store)> {
        let url = self.empty_database()?;
        // Only the lines: other contenders may be alive, and keep theirs.
        self.redis.command(&["EVAL", NO_LINES, "0"]);
        let store = self.runtime.block_on(async {
            let store = Store::postgres(&Options::new(&url)?.with_connections(CONNECTIONS)).await?;
            store.add_venue(settings_for(capacity)?, vec![], vec![]).await?;
            Result::Ok(store)
        })?;
        // What the last contender left to be written is not the next one's business.
        self.postgres.execute("postgres", "CHECKPOINT")?;
        Ok((url, store))
    }

    /// A new database without anything in it.
    pub fn empty_database(&self) -> Result<String> {
        let name = format!("bench_{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.postgres.execute("postgres", &format!("CREATE DATABASE {name}"))?;
        Ok(self.postgres.url(&name))
    }

    /// How often clients have called Redis: everything that matters is a script.
    pub fn calls(&self) -> u64 {
        self.redis.calls("evalsha") + self.redis.calls("eval")
    }

    /// Of this process, Redis, and PostgreSQL with everything that it has started.
    pub fn processor_time(&self) -> Result<Duration> {
        let postgres = machine::with_children(self.postgres.id())?;
        let all = [std::process::id(), self.redis.id()].into_iter().chain(postgres);
        all.map(machine::processor_time).sum()
    }
}
