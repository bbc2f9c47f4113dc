//! Claims in memory.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::{Memory, open};
use crate::Claim;
use crate::backend::Key;
use crate::error::Result;

#[derive(Debug)]
pub(super) struct Entry {
    owner: String,
    until: Instant,
}

/// Past this many, claims that nobody cleared are swept out when a new one is made.
const SWEEP_FROM: usize = 1024;

impl Memory {
    pub(crate) async fn claim(&self, key: &Key, owner: &str, ttl: Duration) -> Result<Claim> {
        let now = Instant::now();
        let mut claims = open(&self.claims);
        if let Some(entry) = claims.get(&key.base).filter(|entry| entry.until > now) {
            if entry.owner == owner {
                return Ok(Claim::Claimed);
            }
            return Ok(Claim::Held { owner: entry.owner.clone(), remaining: entry.until - now });
        }
        // Sweeping when the map would grow anyway makes it a constant cost per claim.
        if claims.len() >= SWEEP_FROM && claims.len() == claims.capacity() {
            claims.retain(|_, entry| entry.until > now);
        }
        claims.insert(Arc::clone(&key.base), Entry { owner: owner.to_owned(), until: now + ttl });
        Ok(Claim::Claimed)
    }

    pub(crate) async fn keep_claim(&self, key: &Key, owner: &str, ttl: Duration) -> Result<bool> {
        let now = Instant::now();
        let mut claims = open(&self.claims);
        let own = claims.get_mut(&key.base).filter(|entry| entry.until > now && entry.owner == owner);
        Ok(own.map(|entry| entry.until = now + ttl).is_some())
    }

    pub(crate) async fn clear_claim(&self, key: &Key, owner: &str) -> Result<bool> {
        let now = Instant::now();
        let mut claims = open(&self.claims);
        let own = claims.get(&key.base).is_some_and(|entry| entry.until > now && entry.owner == owner);
        if own {
            claims.remove(&key.base);
        }
        Ok(own)
    }
}
