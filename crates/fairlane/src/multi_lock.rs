//! Several locks, all or none.

use std::time::Duration;

use crate::error::{Error, Result};
use crate::queue::{Patience, checked};
use crate::{Client, FairLock, Held, Lease};

/// A set of [`FairLock`]s that is acquired as one.
///
/// # Guarantee
/// - All of the keys or none. They are taken one after the other in sorted order, so callers that name the same keys
///   in different orders cannot deadlock each other. Keys are trimmed and repeats dropped.
/// - Each key's line is served in order of arrival at that line.
/// - With a wait of zero nothing is waited for: one taken key is [`Error::Busy`], and the others are given back.
///
/// # Cost
/// One acquire and one release per key. Keys live in different slots of a Redis Cluster, so they cannot be one script;
/// while a later key is waited for, earlier ones are held.
///
/// # Failure modes
/// Those of the fair lock, per key. [`HeldAll::lost`] resolves as soon as the first of them is lost. A timed out
/// caller keeps no place, since places in several lines would block each other.
#[derive(Debug, Clone)]
pub struct MultiLock {
    client: Client,
    keys: Vec<String>,
    lease: Lease,
    sorted: bool,
}

impl MultiLock {
    pub(crate) fn new<I>(client: Client, keys: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        let keys = keys.into_iter().map(Into::into).collect();
        Self { client, keys, lease: Lease::default(), sorted: true }
    }

    /// The lease with which each key is held; self-renewing, 30 s, unless set.
    #[must_use]
    pub fn with_lease(mut self, lease: impl Into<Lease>) -> Self {
        self.lease = lease.into();
        self
    }

    /// Takes the keys in the order given. Two callers with opposite orders then deadlock until a wait ends: only for
    /// keys whose order is already agreed on.
    #[must_use]
    pub fn in_given_order(mut self) -> Self {
        self.sorted = false;
        self
    }

    /// Waits for as long as it takes.
    ///
    /// # Errors
    /// [`NoKeys`](Error::NoKeys), [`EmptyKey`](Error::EmptyKey), and those of [`FairLock::acquire`].
    pub async fn acquire(&self) -> Result<HeldAll> {
        self.acquire_all(Patience::Endless).await
    }

    /// Waits for at most `wait` in all; zero does not wait.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire); [`Busy`](Error::Busy) and [`TimedOut`](Error::TimedOut) name the key that was
    /// missing.
    pub async fn try_acquire(&self, wait: Duration) -> Result<HeldAll> {
        self.acquire_all(Patience::of(wait)).await
    }

    /// The keys that will be locked, in that order.
    ///
    /// # Errors
    /// [`NoKeys`](Error::NoKeys), [`EmptyKey`](Error::EmptyKey).
    pub fn keys(&self) -> Result<Vec<&str>> {
        let mut keys: Vec<&str> = Vec::with_capacity(self.keys.len());
        for key in self.keys.iter().map(|key| key.trim()) {
            checked(key)?;
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        if self.sorted {
            keys.sort_unstable();
        }
        if keys.is_empty() { Err(Error::NoKeys) } else { Ok(keys) }
    }

    async fn acquire_all(&self, patience: Patience) -> Result<HeldAll> {
        let mut held = Vec::new();
        for key in self.keys()? {
            let lock =
                FairLock::new(self.client.clone(), key).with_lease(self.lease).with_grace(Duration::ZERO);
            // An error drops what is held so far, which gives it back.
            held.push(lock.acquire_within(patience).await?);
        }
        Ok(HeldAll { held })
    }
}

/// All the keys of a [`MultiLock`], held. Dropping gives them back.
#[derive(Debug)]
#[must_use = "what is held is given back as soon as this is dropped"]
pub struct HeldAll {
    held: Vec<Held>,
}

impl HeldAll {
    /// Each key as held, in the order of acquiring.
    pub fn each(&self) -> &[Held] {
        &self.held
    }

    /// Whether any of them is known to be lost.
    pub fn is_lost(&self) -> bool {
        self.held.iter().any(Held::is_lost)
    }

    /// Resolves when the first of them is lost.
    pub async fn lost(&self) {
        let mut each: Vec<_> = self.held.iter().map(|held| Box::pin(held.lost())).collect();
        std::future::poll_fn(|cx| {
            if each.iter_mut().any(|lost| lost.as_mut().poll(cx).is_ready()) {
                std::task::Poll::Ready(())
            } else {
                std::task::Poll::Pending
            }
        })
        .await;
    }

    /// Gives all of them back, the last first, and goes on past failures.
    ///
    /// # Errors
    /// The first failure; see [`Held::release`].
    pub async fn release(mut self) -> Result<()> {
        let mut outcome = Ok(());
        while let Some(held) = self.held.pop() {
            outcome = outcome.and(held.release().await);
        }
        outcome
    }
}
