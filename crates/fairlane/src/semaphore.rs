//! A limited number of permits, handed out in order of arrival.

use std::time::Duration;

use crate::backend::QueueKey;
use crate::error::Result;
use crate::queue::{self, Patience, Terms};
use crate::{Client, Held, Lease, Position, Ticket};

/// A counting semaphore, first come, first served, whose permits expire with their owner.
///
/// # Guarantee
/// - Never more than `capacity` permits are out. Whoever is first in line is served first, however many permits it
///   wants: a request for five is not starved by a stream of requests for one, because nobody overtakes it.
/// - Permits of a holder that died come back when its lease ends. Tickets, grace, fencing tokens and cancellation
///   are those of the [`FairLock`](crate::FairLock); a token here orders grants, several of which are valid at once.
/// - All users of one name must say the same capacity. When it changes, each request is judged by its own; permits
///   already out are not called back.
///
/// # Cost
/// As the fair lock: one script to acquire, one to release, O(log n) in waiters and holders. Because the head of the
/// line waits for enough permits, some may be idle while a large request waits.
///
/// # Failure modes
/// As the fair lock. After Redis was emptied, holders put their permits back; until one lease has passed, or as many
/// as there are have reported, waiters that remember the line are granted nothing new.
#[derive(Debug, Clone)]
pub struct Semaphore {
    client: Client,
    key: QueueKey,
    terms: Terms,
}

impl Semaphore {
    pub(crate) fn new(client: Client, name: &str, capacity: u32) -> Self {
        let key = QueueKey { name: name.into(), base: client.base("sem", name), capacity };
        Self { client, key, terms: Terms::default() }
    }

    /// The lease with which permits are held; self-renewing, 30 s, unless set.
    #[must_use]
    pub fn with_lease(mut self, lease: impl Into<Lease>) -> Self {
        self.terms.lease = lease.into();
        self
    }

    /// How long a place is kept for a waiter that timed out; 10 s unless set. Zero keeps none.
    #[must_use]
    pub fn with_grace(mut self, grace: Duration) -> Self {
        self.terms.grace = grace;
        self
    }

    /// Waits for `permits` for as long as it takes.
    ///
    /// # Errors
    /// Those of [`FairLock::acquire`](crate::FairLock::acquire), and
    /// [`TooManyPermits`](crate::Error::TooManyPermits) if there will never be as many.
    pub async fn acquire(&self, permits: u32) -> Result<Held> {
        queue::enter(&self.client, &self.key, &self.terms, permits, Patience::Endless).await
    }

    /// Waits for `permits` for at most `wait`; zero does not wait at all.
    ///
    /// # Errors
    /// Those of [`FairLock::try_acquire`](crate::FairLock::try_acquire), and
    /// [`TooManyPermits`](crate::Error::TooManyPermits).
    pub async fn try_acquire(&self, permits: u32, wait: Duration) -> Result<Held> {
        queue::enter(&self.client, &self.key, &self.terms, permits, Patience::of(wait)).await
    }

    /// Goes on waiting from the place that `ticket` kept. `permits` as in the first call.
    ///
    /// # Errors
    /// Those of [`FairLock::resume`](crate::FairLock::resume).
    pub async fn resume(&self, ticket: &Ticket, permits: u32, wait: Duration) -> Result<Held> {
        queue::resume(&self.client, &self.key, &self.terms, permits, ticket, Patience::of(wait)).await
    }

    /// Where a ticket stands; `None` if it is no longer in line.
    ///
    /// # Errors
    /// [`Unavailable`](crate::Error::Unavailable).
    pub async fn position(&self, ticket: &Ticket) -> Result<Option<Position>> {
        self.client.backend().position(&self.key, &ticket.id).await
    }

    /// How many wait.
    ///
    /// # Errors
    /// [`Unavailable`](crate::Error::Unavailable).
    pub async fn waiting(&self) -> Result<u64> {
        self.client.backend().waiting(&self.key).await
    }
}
