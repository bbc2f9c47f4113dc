//! The backend over Redis 7: one server, a server with replicas, or a cluster.
//!
//! Every operation is one script and one round trip; scripts decide by the server's clock and may be repeated. One
//! multiplexed connection carries all commands of a client, a second one its wake-ups. Both are driven by a thread of
//! the client's own ([`keeper`]), so that leases are renewed however busy the program's own workers are.
//! `docs/redis-keys.md` lists every key.

mod chores;
mod config;
mod guard;
mod keeper;
mod lanes;
mod link;
mod lock;
mod queue;
#[cfg(test)]
mod race;
mod rate_limiter;
mod script;
mod servers;
mod wakeups;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::error::Result;
use crate::lease::Grip;
use crate::ticket::Mint;
use chores::{Chore, Outstanding};
pub use config::{RedisConfig, Topology};
use keeper::Kept;
use lanes::LaneDesk;
pub(crate) use lanes::Lanes;
use link::Link;
use wakeups::Watches;

/// What the callers' side and the keeper's thread share.
#[derive(Debug)]
struct Shared {
    config: RedisConfig,
    client: Arc<str>,
    /// What the channels of all clients begin with.
    channel: String,
    link: Link,
    watches: Watches,
    kept: Kept,
    lanes: LaneDesk,
    outstanding: Outstanding,
    /// The highest fencing token any reply has carried; sent along, so that no server can go below it.
    highest_token: AtomicU64,
    /// Set when Redis is found to have been emptied.
    emptied: AtomicBool,
    /// When the sign of presence was last set.
    marked: Mutex<Option<Instant>>,
}

impl Shared {
    fn saw_token(&self, token: u64) {
        self.highest_token.fetch_max(token, Ordering::Relaxed);
    }
}

#[derive(Debug)]
pub(crate) struct Redis {
    shared: Arc<Shared>,
    /// Closing this ends the keeper, once it has cleaned up.
    chores: mpsc::UnboundedSender<Chore>,
}

impl Redis {
    pub(crate) async fn connect(config: RedisConfig, mint: Arc<Mint>) -> Result<Self> {
        let (chores, inbox) = mpsc::unbounded_channel();
        let later = config.connect_later;
        let shared = keeper::start(config, &mint.client, inbox)?;
        let redis = Self { shared, chores };
        if !later {
            redis.shared.link.ready().await?;
        }
        Ok(redis)
    }

    fn send(&self, chore: Chore) {
        self.shared.outstanding.add();
        if self.chores.send(chore).is_err() {
            // The keeper has ended with its runtime; leases end by themselves.
            self.shared.outstanding.done();
        }
    }

    pub(crate) fn keep(&self, grip: &Arc<Grip>) {
        self.shared.kept.keep(grip);
    }

    pub(crate) fn let_go(&self, grip: &Arc<Grip>) {
        self.shared.kept.let_go(&grip.ticket);
    }

    pub(crate) async fn flush(&self) -> Result<()> {
        self.shared.outstanding.settled(chores::PERSISTENCE).await
    }
}

fn micros(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
