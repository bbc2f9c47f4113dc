//! What Redis, the network and other processes can do to a lock.

mod clocks;
mod dying;
mod emptied;
mod failover;
mod frugal;
mod lost_replies;
mod many;
mod rates;
mod tokens;

use std::time::Duration;

use fairlane::{FairLock, Held};
use tokio::time::{sleep, timeout};

use crate::world::LONG;

/// Waits until as many stand in line.
async fn in_line(lock: &FairLock, count: u64) {
    let reached = async {
        while lock.waiting().await.ok() != Some(count) {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(LONG, reached).await.unwrap_or_else(|_| panic!("never {count} in line"));
}

/// A resource that checks fencing tokens, as everything that is guarded by a lock should.
#[derive(Debug, Default)]
struct Fenced {
    highest: u64,
    refused: u32,
}

impl Fenced {
    fn write(&mut self, token: u64) -> bool {
        let fresh = token >= self.highest;
        self.highest = self.highest.max(token);
        self.refused += u32::from(!fresh);
        fresh
    }
}

async fn told_lost(held: &Held) {
    timeout(LONG, held.lost()).await.expect("the holder is told");
}
