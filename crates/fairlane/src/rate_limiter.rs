//! At most so many in any window.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::Client;
use crate::backend::{Key, Take, Taken};
use crate::error::Result;
use crate::queue::checked;
use crate::ticket::TicketId;

/// A rate limiter over a sliding window.
///
/// # Guarantee
/// - At most `limit` pass in *any* window of the given length, not only in aligned ones; the clock is the backend's,
///   so clients' clocks do not matter.
/// - A refusal says when to come back. Waiters pass in order of arrival, and nobody passes while others wait in front.
/// - A request is counted once, however often it is resent, for as long as the last `limit` passes are remembered:
///   at least one window. So quota is neither lost nor doubled when a reply is lost.
///
/// # Cost
/// One script for an answer; a waiter asks once more when its time has come. O(log n). Memory per key: the last
/// `limit` passes, and those who wait, of whom there are at most as many as can pass within their patience; the key
/// expires when it is no longer needed.
///
/// # Failure modes
/// - *A waiter dies*: its place is kept until a second after its turn came, and costs one pass that late.
/// - *Redis is emptied*: the count starts anew, so up to twice the limit may pass in the window in which it happened.
/// - *The server's clock is set back* by more than a window (or a failover to one that is behind): the count starts
///   anew, as above.
#[derive(Debug, Clone)]
pub struct RateLimiter {
    client: Client,
    key: Key,
    limit: u32,
    window: Duration,
}

/// What a [`RateLimiter`] answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pass {
    /// Go ahead.
    Granted {
        /// When it was counted, in µs of the limiter's clock: Unix time over Redis.
        at_micros: u64,
    },
    /// Not now.
    Limited {
        /// There is no room before this has passed.
        retry_after: Duration,
    },
}

impl Pass {
    /// Whether to go ahead.
    pub fn is_granted(self) -> bool {
        matches!(self, Self::Granted { .. })
    }
}

impl RateLimiter {
    pub(crate) fn new(client: Client, name: &str, limit: u32, window: Duration) -> Self {
        assert!(limit > 0, "a rate limit of zero lets nobody through; say what is meant with a lock");
        assert!(
            window >= Duration::from_millis(1),
            "a window shorter than a millisecond measures the network"
        );
        let key = Key { name: name.into(), base: client.base("rate", name) };
        Self { client, key, limit, window }
    }

    /// Passes at once or says when to come back.
    ///
    /// # Errors
    /// [`EmptyKey`](crate::Error::EmptyKey), [`Unavailable`](crate::Error::Unavailable).
    pub async fn check(&self) -> Result<Pass> {
        self.acquire(Duration::ZERO).await
    }

    /// Waits in order of arrival for at most `wait`; says when to come back as soon as it is clear that it will not
    /// do.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub async fn acquire(&self, wait: Duration) -> Result<Pass> {
        checked(&self.key.name)?;
        let start = Instant::now();
        let mut place =
            Place { limiter: self, ticket: self.client.mint().ticket(), waiting: !wait.is_zero() };
        loop {
            let patience = wait.saturating_sub(start.elapsed());
            let take = Take { ticket: &place.ticket, limit: self.limit, window: self.window, patience };
            match self.client.backend().take(&self.key, &take).await? {
                Taken::Passed(at_micros) => {
                    place.waiting = false;
                    return Ok(Pass::Granted { at_micros });
                }
                Taken::Wait(due) => sleep(due).await,
                Taken::Refused(retry_after) => {
                    place.waiting = false;
                    return Ok(Pass::Limited { retry_after });
                }
            }
        }
    }
}

/// A place among the waiters, given up when dropped.
struct Place<'a> {
    limiter: &'a RateLimiter,
    ticket: TicketId,
    waiting: bool,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if self.waiting {
            self.limiter.client.backend().untake(&self.limiter.key, &self.ticket);
        }
    }
}
