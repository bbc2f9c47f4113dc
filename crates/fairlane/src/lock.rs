//! A lock without a line.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::backend::{Attempt, Key, Target};
use crate::error::{Error, Result};
use crate::lease::Grip;
use crate::queue::{Patience, checked};
use crate::ticket::{TicketId, random};
use crate::{Client, Held, Lease};

/// A mutual exclusion lock for "one of you, the others no": fail fast, or look again now and then.
///
/// # Guarantee
/// - One holder at a time, for as long as its lease lasts. No order among those who wait; use the
///   [`FairLock`](crate::FairLock) where order or waiting matters.
/// - Every grant has a [fencing token](Held::fencing_token) higher than all before it.
/// - Dropping any future returned here leaves no lock behind.
///
/// # Cost
/// One script to acquire, one to release, both O(1); about half the cost of the fair lock. Waiting is looking again,
/// first after some 10 ms and then less often, up to every 200 ms, with jitter.
///
/// # Failure modes
/// Those of the fair lock, except that nobody waits in line: after Redis was emptied the next to ask is granted, and
/// the old holder learns of it within one heartbeat.
#[derive(Debug, Clone)]
pub struct Lock {
    client: Client,
    key: Key,
    lease: Lease,
}

const FIRST_LOOK: Duration = Duration::from_millis(10);
const SLOWEST_LOOK: Duration = Duration::from_millis(200);

impl Lock {
    pub(crate) fn new(client: Client, name: &str) -> Self {
        let key = Key { name: name.into(), base: client.base("lock", name) };
        Self { client, key, lease: Lease::default() }
    }

    /// The lease with which it is held; self-renewing, 30 s, unless set.
    #[must_use]
    pub fn with_lease(mut self, lease: impl Into<Lease>) -> Self {
        self.lease = lease.into();
        self
    }

    /// Waits for as long as it takes.
    ///
    /// # Errors
    /// [`EmptyKey`](Error::EmptyKey), [`Unavailable`](Error::Unavailable).
    pub async fn acquire(&self) -> Result<Held> {
        self.attempts(Patience::Endless).await
    }

    /// Waits for at most `wait`; zero asks once.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire); [`Busy`](Error::Busy) if `wait` is zero and it is taken,
    /// [`TimedOut`](Error::TimedOut), without a ticket, if it stayed taken.
    pub async fn try_acquire(&self, wait: Duration) -> Result<Held> {
        self.attempts(Patience::of(wait)).await
    }

    async fn attempts(&self, patience: Patience) -> Result<Held> {
        checked(&self.key.name)?;
        let mut asking = Asking { lock: self, ticket: self.client.mint().ticket(), may_hold: false };
        let mut pause = FIRST_LOOK;
        loop {
            asking.may_hold = true;
            let left = match self.client.backend().lock(&self.key, &asking.ticket, self.lease).await? {
                Attempt::Granted(grant) => {
                    asking.may_hold = false;
                    let target = Target::Lock(self.key.clone());
                    let grip = Grip::new(target, asking.ticket.clone(), 1, self.lease, grant);
                    return Ok(Held::new(self.client.clone(), grip));
                }
                Attempt::Taken(left) => left,
            };
            asking.may_hold = false;
            let spread = Duration::from_micros(random() % 5_000);
            let mut nap = (pause + spread).min(left + Duration::from_millis(1) + spread);
            pause = (pause * 2).min(SLOWEST_LOOK);
            match patience {
                Patience::Endless => {}
                Patience::Until(at) => {
                    let rest = at.saturating_duration_since(Instant::now());
                    if rest.is_zero() {
                        return Err(Error::TimedOut { key: self.key.name.to_string(), ticket: None });
                    }
                    nap = nap.min(rest);
                }
                Patience::None => return Err(Error::Busy { key: self.key.name.to_string() }),
            }
            sleep(nap).await;
        }
    }
}

/// A request whose answer is not known. Dropped, it takes back whatever it may have been given.
struct Asking<'a> {
    lock: &'a Lock,
    ticket: TicketId,
    may_hold: bool,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        if self.may_hold {
            self.lock.client.backend().abandon_lock(&self.lock.key, &self.ticket);
        }
    }
}
