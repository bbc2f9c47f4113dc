//! Standing in line: what the fair lock and the semaphore have in common.
//!
//! A ticket enters, waits for its bell, and enters again when it rings; entering is the same step whether the ticket
//! is new, was called, came back, or has to be put back into a line that was forgotten. So there is nothing to get
//! out of step: whatever was missed, the next step puts right.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};

use crate::backend::{Enter, Entered, Intent, QueueKey, Target};
use crate::error::{Error, Result};
use crate::lease::Grip;
use crate::ticket::TicketId;
use crate::{Client, Held, Lease, Ticket};

/// Where a ticket stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// The ticket's number.
    pub number: u64,
    /// How many wait in front of it, not counting who is being served. Tickets that stepped aside are not counted.
    pub ahead: u64,
    /// How many wait in all.
    pub waiting: u64,
}

/// How one kind of line is entered.
#[derive(Debug, Clone)]
pub(crate) struct Terms {
    pub(crate) lease: Lease,
    pub(crate) grace: Duration,
}

impl Default for Terms {
    fn default() -> Self {
        Self { lease: Lease::default(), grace: Duration::from_secs(10) }
    }
}

/// How long somebody is ready to wait.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Patience {
    Endless,
    Until(Instant),
    None,
}

impl Patience {
    pub(crate) fn of(wait: Duration) -> Self {
        if wait.is_zero() {
            return Self::None;
        }
        // A wait too long to be an instant is as good as endless.
        Instant::now().checked_add(wait).map_or(Self::Endless, Self::Until)
    }
}

pub(crate) fn checked(name: &str) -> Result<()> {
    if name.trim().is_empty() { Err(Error::EmptyKey) } else { Ok(()) }
}

/// A new ticket, until it is granted or the patience ends.
pub(crate) async fn enter(
    client: &Client,
    key: &QueueKey,
    terms: &Terms,
    permits: u32,
    patience: Patience,
) -> Result<Held> {
    checked(&key.name)?;
    if permits > key.capacity {
        return Err(Error::TooManyPermits {
            key: key.name.to_string(),
            asked: permits,
            capacity: key.capacity,
        });
    }
    let seat = Seat::new(client, key, client.mint().ticket());
    let intent = if matches!(patience, Patience::None) { Intent::NoWait } else { Intent::Queue };
    seat.wait(terms, permits, patience, intent, None).await
}

/// An earlier ticket, from the place it kept. With no patience it only takes what is already its own.
pub(crate) async fn resume(
    client: &Client,
    key: &QueueKey,
    terms: &Terms,
    permits: u32,
    ticket: &Ticket,
    patience: Patience,
) -> Result<Held> {
    checked(&key.name)?;
    let seat = Seat::new(client, key, ticket.id.clone());
    // Even without patience a place has to be taken before it can be kept.
    let patience =
        if matches!(patience, Patience::None) { Patience::Until(Instant::now()) } else { patience };
    seat.wait(terms, permits, patience, Intent::Resume, Some((ticket.epoch, ticket.number))).await
}

/// A ticket that is being waited for. Dropped before it is granted or parked, it leaves the line.
struct Seat<'a> {
    client: &'a Client,
    key: &'a QueueKey,
    ticket: TicketId,
    bell: Arc<Notify>,
    in_line: bool,
}

impl<'a> Seat<'a> {
    fn new(client: &'a Client, key: &'a QueueKey, ticket: TicketId) -> Self {
        // From here on a request may be on its way to Redis, so from here on dropping cleans up.
        Self { client, key, ticket, bell: Arc::new(Notify::new()), in_line: true }
    }

    async fn wait(
        mut self,
        terms: &Terms,
        permits: u32,
        patience: Patience,
        first: Intent,
        mut known: Option<(u64, u64)>,
    ) -> Result<Held> {
        let mut intent = first;
        let mut entered_before = false;
        loop {
            let (ticket, bell) = (&self.ticket, &self.bell);
            let step = Enter { ticket, intent, permits, lease: terms.lease, grace: terms.grace, known, bell };
            let entered = match self.client.backend().enter(self.key, &step).await {
                Ok(entered) => entered,
                // Whoever is in line already outwaits an outage; whoever is not hears of it at once.
                Err(Error::Unavailable { .. }) if entered_before && intent == Intent::Queue => {
                    self.pause(patience).await;
                    if patience.is_over() {
                        intent = Intent::Park;
                    }
                    continue;
                }
                Err(error) => return Err(error),
            };
            let name = || self.key.name.to_string();
            match entered {
                Entered::Granted(grant) => {
                    self.in_line = false;
                    let target = Target::Queue(self.key.clone());
                    let grip = Grip::new(target, self.ticket.clone(), permits, terms.lease, grant);
                    return Ok(Held::new(self.client.clone(), grip));
                }
                Entered::Queued { epoch, number, look } => {
                    known = Some((epoch, number));
                    entered_before = true;
                    intent = Intent::Queue;
                    if !self.rung(patience, look).await {
                        intent = Intent::Park;
                    }
                }
                Entered::Parked => {
                    self.in_line = false;
                    let ticket =
                        known.map(|(epoch, number)| Ticket { id: self.ticket.clone(), epoch, number });
                    return Err(Error::TimedOut { key: name(), ticket });
                }
                Entered::Gone => {
                    self.in_line = false;
                    let key = name();
                    let parked = intent == Intent::Park;
                    return Err(if parked {
                        Error::TimedOut { key, ticket: None }
                    } else {
                        Error::TicketExpired { key }
                    });
                }
                Entered::Busy => {
                    self.in_line = false;
                    return Err(Error::Busy { key: name() });
                }
                Entered::Full => {
                    self.in_line = false;
                    return Err(Error::LineFull { key: name() });
                }
            }
        }
    }

    /// Whether the bell rang, or it is time to look, before the patience ended.
    async fn rung(&self, patience: Patience, look: Option<Instant>) -> bool {
        let looked = async {
            match look {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        let ended = async {
            match patience {
                Patience::Until(at) => sleep_until(at).await,
                Patience::Endless => std::future::pending().await,
                Patience::None => {}
            }
        };
        tokio::select! {
            biased;
            () = self.bell.notified() => true,
            () = looked => true,
            () = ended => false,
        }
    }

    async fn pause(&self, patience: Patience) {
        let spread = crate::ticket::random() % 500;
        let pause = Duration::from_millis(250 + spread);
        match patience {
            Patience::Until(at) => sleep_until(at.min(Instant::now() + pause)).await,
            _ => sleep(pause).await,
        }
    }
}

impl Patience {
    fn is_over(self) -> bool {
        match self {
            Self::Until(at) => at <= Instant::now(),
            Self::Endless => false,
            Self::None => true,
        }
    }
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        self.client.backend().unseat(self.key, &self.ticket);
        if self.in_line {
            self.client.backend().abandon(self.key, &self.ticket);
        }
    }
}
