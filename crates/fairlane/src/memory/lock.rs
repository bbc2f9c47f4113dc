//! The unfair lock in memory.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::{Memory, end_of, open};
use crate::Lease;
use crate::backend::{Attempt, Key, Left};
use crate::error::Result;
use crate::lease::{Grant, Grip};
use crate::ticket::TicketId;

#[derive(Debug)]
pub(super) struct Entry {
    ticket: TicketId,
    grant: Grant,
}

impl Entry {
    fn is_over(&self, now: Instant) -> bool {
        self.grant.valid_until.is_some_and(|until| until <= now)
    }
}

impl Memory {
    pub(crate) async fn lock(&self, key: &Key, ticket: &TicketId, lease: Lease) -> Result<Attempt> {
        let now = Instant::now();
        let mut locks = open(&self.locks);
        if let Some(entry) =
            locks.get(&key.base).filter(|entry| !entry.is_over(now) && entry.ticket != *ticket)
        {
            let rest = entry.grant.valid_until.map_or(Duration::MAX, |until| until - now);
            return Ok(Attempt::Taken(rest.min(Duration::from_secs(3600))));
        }
        let token = self.clock.token(now);
        let grant = Grant { token, epoch: self.clock.start_micros, valid_until: end_of(lease, now) };
        locks.insert(Arc::clone(&key.base), Entry { ticket: ticket.clone(), grant });
        Ok(Attempt::Granted(grant))
    }

    pub(crate) async fn unlock(&self, key: &Key, grip: &Grip) -> Result<Left> {
        let now = Instant::now();
        let mut locks = open(&self.locks);
        match locks.get(&key.base) {
            Some(entry) if entry.ticket == grip.ticket => {
                let late = entry.is_over(now);
                locks.remove(&key.base);
                Ok(if late { Left::Lost } else { Left::Released })
            }
            _ => Ok(Left::Lost),
        }
    }

    pub(crate) fn abandon_lock(&self, key: &Key, ticket: &TicketId) {
        let mut locks = open(&self.locks);
        if locks.get(&key.base).is_some_and(|entry| entry.ticket == *ticket) {
            locks.remove(&key.base);
        }
    }
}
