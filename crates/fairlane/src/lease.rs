//! How long something is held, and how its holder learns that it no longer is.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::backend::Target;
use crate::ticket::TicketId;

/// How long a grant lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lease {
    /// Held until released. Over Redis it is given for this long and renewed every third of it while the process
    /// lives; a process that dies loses it after at most this long. Below half a second renewal cannot keep up.
    Renewing(Duration),
    /// Held for this long and no longer, whether or not the holder is done.
    Fixed(Duration),
}

#[cfg_attr(not(feature = "redis"), expect(dead_code, reason = "nothing is renewed in-process"))]
impl Lease {
    pub(crate) fn length(self) -> Duration {
        match self {
            Self::Renewing(length) | Self::Fixed(length) => length,
        }
    }

    pub(crate) fn renews(self) -> bool {
        matches!(self, Self::Renewing(_))
    }
}

impl Default for Lease {
    /// Renewing: 30 s, renewed every 10 s.
    fn default() -> Self {
        Self::Renewing(Duration::from_secs(30))
    }
}

impl From<Duration> for Lease {
    /// A fixed lease; zero means self-renewing.
    fn from(length: Duration) -> Self {
        if length.is_zero() { Self::default() } else { Self::Fixed(length) }
    }
}

const LIVE: u8 = 0;
const LOST: u8 = 1;
const RELEASED: u8 = 2;

/// One grant, shared between the caller's guard and whoever renews it.
#[derive(Debug)]
pub(crate) struct Grip {
    pub(crate) target: Target,
    pub(crate) ticket: TicketId,
    pub(crate) token: u64,
    pub(crate) permits: u32,
    pub(crate) lease: Lease,
    epoch: AtomicU64,
    /// Until when the holder may believe, by this process's monotonic clock, counted from before the request was
    /// sent: never later than the server's own end of the lease. `None` where nothing can take it away.
    valid_until: Mutex<Option<Instant>>,
    state: AtomicU8,
    changed: Notify,
}

/// What a backend says when it grants.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Grant {
    pub(crate) token: u64,
    pub(crate) epoch: u64,
    pub(crate) valid_until: Option<Instant>,
}

impl Grip {
    pub(crate) fn new(target: Target, ticket: TicketId, permits: u32, lease: Lease, grant: Grant) -> Self {
        Self {
            target,
            ticket,
            token: grant.token,
            permits,
            lease,
            epoch: AtomicU64::new(grant.epoch),
            valid_until: Mutex::new(grant.valid_until),
            state: AtomicU8::new(LIVE),
            changed: Notify::new(),
        }
    }

    #[cfg_attr(not(feature = "redis"), expect(dead_code, reason = "memory has one life"))]
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Relaxed)
    }

    pub(crate) fn valid_until(&self) -> Option<Instant> {
        *self.valid_until.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// A renewal succeeded. The end of a lease only moves on: replies may overtake each other.
    #[cfg_attr(not(feature = "redis"), expect(dead_code, reason = "nothing is renewed in-process"))]
    pub(crate) fn renewed(&self, epoch: u64, until: Instant) {
        self.epoch.store(epoch, Ordering::Relaxed);
        let mut valid = self.valid_until.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        *valid = (*valid).max(Some(until));
        drop(valid);
        self.changed.notify_waiters();
    }

    pub(crate) fn mark_lost(&self) {
        if self.state.compare_exchange(LIVE, LOST, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            self.changed.notify_waiters();
        }
    }

    pub(crate) fn mark_released(&self) {
        self.state.store(RELEASED, Ordering::Release);
    }

    #[cfg_attr(not(feature = "redis"), expect(dead_code, reason = "only renewal asks"))]
    pub(crate) fn is_live(&self) -> bool {
        self.state.load(Ordering::Acquire) == LIVE
    }

    pub(crate) fn is_lost(&self) -> bool {
        if self.valid_until().is_some_and(|until| until <= Instant::now()) {
            // Once believed lost it stays lost, even if a renewal answers late: the caller may have acted on it.
            self.mark_lost();
        }
        self.state.load(Ordering::Acquire) == LOST
    }

    pub(crate) async fn lost(&self) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if self.is_lost() {
                return;
            }
            match self.valid_until() {
                Some(until) => tokio::select! {
                    () = &mut changed => {}
                    () = sleep_until(until) => {}
                },
                None => changed.await,
            }
        }
    }
}
