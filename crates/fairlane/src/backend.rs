//! The two places where state can live, behind one set of atomic operations.
//!
//! Waiting, deadlines, cancellation and errors are written once, above this line. A backend only decides: every
//! operation here is one step that nobody sees half of, and may be repeated with the same ticket without acting twice.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::error::Result;
use crate::guard::Claim;
use crate::lease::{Grant, Grip};
use crate::memory::Memory;
#[cfg(feature = "redis")]
use crate::redis::Redis;
use crate::ticket::TicketId;
use crate::{Lease, Position};

/// A line of tickets in front of `capacity` permits: a fair lock has one, a semaphore several.
#[derive(Debug, Clone)]
pub(crate) struct QueueKey {
    pub(crate) name: Arc<str>,
    /// The name under which the backend keeps it, different for each kind of primitive.
    pub(crate) base: Arc<str>,
    pub(crate) capacity: u32,
}

/// Any other thing that is kept under a name.
#[derive(Debug, Clone)]
pub(crate) struct Key {
    pub(crate) name: Arc<str>,
    pub(crate) base: Arc<str>,
}

/// What a grant is a grant of.
#[derive(Debug)]
pub(crate) enum Target {
    Queue(QueueKey),
    Lock(Key),
}

impl Target {
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Queue(key) => &key.name,
            Self::Lock(key) => &key.name,
        }
    }
}

/// What a caller in front of a line wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Intent {
    /// Now or not at all.
    NoWait,
    /// Stand in line, or go on standing there.
    Queue,
    /// Come back to a place that was kept.
    Resume,
    /// Step aside, keeping the place for the grace; unless the turn has just come.
    Park,
}

/// One step of one ticket towards the head of a line.
#[derive(Debug)]
pub(crate) struct Enter<'a> {
    pub(crate) ticket: &'a TicketId,
    pub(crate) intent: Intent,
    pub(crate) permits: u32,
    pub(crate) lease: Lease,
    pub(crate) grace: Duration,
    /// Epoch and number from an earlier answer.
    #[cfg_attr(not(feature = "redis"), expect(dead_code, reason = "memory does not forget"))]
    pub(crate) known: Option<(u64, u64)>,
    /// Rung when the ticket should take its next step.
    pub(crate) bell: &'a Arc<Notify>,
}

#[derive(Debug)]
pub(crate) enum Entered {
    Granted(Grant),
    /// In line. `look`: when to look again although the bell did not ring.
    Queued {
        epoch: u64,
        number: u64,
        look: Option<Instant>,
    },
    /// Out of line, place kept.
    Parked,
    /// Out of line, place not kept.
    Gone,
    Busy,
    Full,
}

/// How giving back went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Left {
    Released,
    Lost,
}

/// How an attempt on an unfair lock went.
#[derive(Debug)]
pub(crate) enum Attempt {
    Granted(Grant),
    /// Somebody has it for at most this much longer.
    Taken(Duration),
}

/// One request to a rate limiter.
#[derive(Debug)]
pub(crate) struct Take<'a> {
    pub(crate) ticket: &'a TicketId,
    pub(crate) limit: u32,
    pub(crate) window: Duration,
    /// How much longer the caller would wait.
    pub(crate) patience: Duration,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Taken {
    /// Passed, at this many µs of the limiter's clock.
    Passed(u64),
    /// Place kept; come back after this long.
    Wait(Duration),
    /// Not within the caller's patience: this long at least.
    Refused(Duration),
}

#[derive(Debug)]
pub(crate) enum Backend {
    Memory(Box<Memory>),
    #[cfg(feature = "redis")]
    Redis(Redis),
}

/// Calls the method of the same name on whichever backend there is.
macro_rules! on_backend {
    ($self:ident, $backend:ident => $call:expr) => {
        match $self {
            Backend::Memory($backend) => $call,
            #[cfg(feature = "redis")]
            Backend::Redis($backend) => $call,
        }
    };
}

impl Backend {
    pub(crate) async fn enter(&self, key: &QueueKey, step: &Enter<'_>) -> Result<Entered> {
        on_backend!(self, it => it.enter(key, step).await)
    }

    pub(crate) async fn leave(&self, key: &QueueKey, grip: &Grip) -> Result<Left> {
        on_backend!(self, it => it.leave(key, grip).await)
    }

    /// Takes the ticket out of the line wherever it stands, also if its `enter` is still on the way. Never blocks:
    /// it is called from `Drop`.
    pub(crate) fn abandon(&self, key: &QueueKey, ticket: &TicketId) {
        on_backend!(self, it => it.abandon(key, ticket));
    }

    /// The bell of a ticket is no longer listened to.
    pub(crate) fn unseat(&self, key: &QueueKey, ticket: &TicketId) {
        on_backend!(self, it => it.unseat(key, ticket));
    }

    pub(crate) async fn position(&self, key: &QueueKey, ticket: &TicketId) -> Result<Option<Position>> {
        on_backend!(self, it => it.position(key, ticket).await)
    }

    pub(crate) async fn waiting(&self, key: &QueueKey) -> Result<u64> {
        on_backend!(self, it => it.waiting(key).await)
    }

    pub(crate) async fn lock(&self, key: &Key, ticket: &TicketId, lease: Lease) -> Result<Attempt> {
        on_backend!(self, it => it.lock(key, ticket, lease).await)
    }

    pub(crate) async fn unlock(&self, key: &Key, grip: &Grip) -> Result<Left> {
        on_backend!(self, it => it.unlock(key, grip).await)
    }

    pub(crate) fn abandon_lock(&self, key: &Key, ticket: &TicketId) {
        on_backend!(self, it => it.abandon_lock(key, ticket));
    }

    /// Renew this grant from now on, if its lease says so.
    pub(crate) fn keep(&self, grip: &Arc<Grip>) {
        on_backend!(self, it => it.keep(grip));
    }

    /// Start no further renewal.
    pub(crate) fn let_go(&self, grip: &Arc<Grip>) {
        on_backend!(self, it => it.let_go(grip));
    }

    pub(crate) async fn take(&self, key: &Key, take: &Take<'_>) -> Result<Taken> {
        on_backend!(self, it => it.take(key, take).await)
    }

    /// Gives up a place among the waiters of a rate limiter; what has passed stays counted.
    pub(crate) fn untake(&self, key: &Key, ticket: &TicketId) {
        on_backend!(self, it => it.untake(key, ticket));
    }

    pub(crate) async fn claim(&self, key: &Key, owner: &str, ttl: Duration) -> Result<Claim> {
        on_backend!(self, it => it.claim(key, owner, ttl).await)
    }

    pub(crate) async fn keep_claim(&self, key: &Key, owner: &str, ttl: Duration) -> Result<bool> {
        on_backend!(self, it => it.keep_claim(key, owner, ttl).await)
    }

    pub(crate) async fn clear_claim(&self, key: &Key, owner: &str) -> Result<bool> {
        on_backend!(self, it => it.clear_claim(key, owner).await)
    }

    /// Waits until everything that was dropped has been given back.
    pub(crate) async fn flush(&self) -> Result<()> {
        on_backend!(self, it => it.flush().await)
    }
}
