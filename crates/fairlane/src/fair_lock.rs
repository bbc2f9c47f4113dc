//! A lock that is passed on in order of arrival.

use std::time::Duration;

use crate::backend::QueueKey;
use crate::error::Result;
use crate::queue::{self, Patience, Terms};
use crate::{Client, Held, Lease, Position, Ticket};

/// A mutual exclusion lock, first come, first served.
///
/// # Guarantee
/// - One holder at a time, for as long as its lease lasts; grants in the order in which requests reached the backend.
///   Nobody who asks later, waits less or retries faster is served earlier.
/// - A waiter whose wait ends keeps its place for a grace (10 s unless [set](Self::with_grace)) and continues with
///   the [`Ticket`] in [`Error::TimedOut`](crate::Error::TimedOut). Others pass meanwhile; it comes back in front of
///   everybody with a higher number.
/// - A living waiter is never thrown out or reordered, however long the lock is held.
/// - Every grant has a [fencing token](Held::fencing_token) higher than all before it, also after Redis was emptied.
/// - Dropping any future returned here, at any point, leaves the line as if it had not been called.
///
/// # Cost
/// Over Redis: acquire and release are one script each; a contended hand-over is the release and one claim by the
/// waiter whose turn it is. All of it is O(log n) in the number of waiters. While waiting, a client sends one
/// heartbeat a second per line, for all its waiters together. In-process: a mutex and a tree; asking for a
/// position counts those in front.
///
/// # Failure modes
/// - *The holder dies*: a self-renewing lease ends within its length (30 s by default), a fixed one when it is over.
/// - *Waiters die*: all of them are skipped in one step, at most one liveness period (3 s) after the lock is free.
/// - *A waiter is frozen* for three heartbeats: others pass. When it wakes within its grace it has its place back; later
///   it goes to the end of the line.
/// - *The holder is paused past its lease*: somebody else is granted. The paused one's [`Held::lost`] resolves when
///   it wakes, but a write already on its way can only be refused by its fencing token. Check it in the resource.
/// - *Redis is emptied or restarts without its data*: the holder's client puts the grant back, waiters put themselves
///   back in their old order, and nobody is granted for one lease unless the holder has reported back. A client that
///   knew nothing of the lock before and asks in that moment may be granted although somebody still believes to hold
///   it; that ends with the old holder's next heartbeat, and the fencing token tells the two apart.
/// - *Failover to a replica that missed the last writes*: the same. Replication in Redis is asynchronous, so two
///   holders are possible for up to one lease. Tokens never go below the server's clock in µs or what the asking
///   client has seen; they can only repeat if the new server's clock is behind *and* no client that remembers asks.
#[derive(Debug, Clone)]
pub struct FairLock {
    client: Client,
    key: QueueKey,
    terms: Terms,
}

impl FairLock {
    pub(crate) fn new(client: Client, name: &str) -> Self {
        let key = QueueKey { name: name.into(), base: client.base("fair", name), capacity: 1 };
        Self { client, key, terms: Terms::default() }
    }

    /// The lease with which it is held; self-renewing, 30 s, unless set. All users of a lock should say the same: after
    /// Redis was emptied, waiters give a holder as long as their own lease to report back.
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

    /// Waits for as long as it takes.
    ///
    /// # Errors
    /// [`EmptyKey`](crate::Error::EmptyKey), [`LineFull`](crate::Error::LineFull), and
    /// [`Unavailable`](crate::Error::Unavailable) if Redis cannot be reached to enter the line; once in line, an outage
    /// is waited out.
    pub async fn acquire(&self) -> Result<Held> {
        self.acquire_within(Patience::Endless).await
    }

    /// Waits for at most `wait`; zero does not wait at all. A Redis that does not answer may add the
    /// client's call timeout, as often as a call is sent.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire); [`Busy`](crate::Error::Busy) if `wait` is zero and it is not free;
    /// [`TimedOut`](crate::Error::TimedOut), with the ticket, if the turn did not come in time.
    pub async fn try_acquire(&self, wait: Duration) -> Result<Held> {
        self.acquire_within(Patience::of(wait)).await
    }

    pub(crate) async fn acquire_within(&self, patience: Patience) -> Result<Held> {
        queue::enter(&self.client, &self.key, &self.terms, 1, patience).await
    }

    /// Goes on waiting from the place that `ticket` kept, for at most `wait`.
    ///
    /// # Errors
    /// As [`try_acquire`](Self::try_acquire), and [`TicketExpired`](crate::Error::TicketExpired) if the place is gone.
    pub async fn resume(&self, ticket: &Ticket, wait: Duration) -> Result<Held> {
        queue::resume(&self.client, &self.key, &self.terms, 1, ticket, Patience::of(wait)).await
    }

    /// Where a ticket stands; `None` if it is no longer in line.
    ///
    /// # Errors
    /// [`Unavailable`](crate::Error::Unavailable).
    pub async fn position(&self, ticket: &Ticket) -> Result<Option<Position>> {
        self.client.backend().position(&self.key, &ticket.id).await
    }

    /// Gives up the place that a ticket kept.
    pub fn give_up(&self, ticket: &Ticket) {
        self.client.backend().abandon(&self.key, &ticket.id);
    }

    /// How many wait.
    ///
    /// # Errors
    /// [`Unavailable`](crate::Error::Unavailable).
    pub async fn waiting(&self) -> Result<u64> {
        self.client.backend().waiting(&self.key).await
    }
}
