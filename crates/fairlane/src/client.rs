//! The one handle from which everything else is made.

use std::sync::Arc;
use std::time::Duration;

use crate::backend::Backend;
use crate::error::Result;
#[cfg(feature = "redis")]
use crate::lanes::SharedLanes;
use crate::memory::Memory;
#[cfg(feature = "redis")]
use crate::redis::{Lanes, Redis, RedisConfig};
use crate::ticket::Mint;
use crate::{FairLock, Guard, Lock, MultiLock, RateLimiter, Semaphore};

/// Where coordination happens: in this process, or in a Redis that several processes share.
///
/// Cheap to clone; clones share everything. What is made from it under one name is one thing, whoever makes it.
#[derive(Debug, Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    backend: Backend,
    mint: Arc<Mint>,
    prefix: String,
}

impl Client {
    /// Everything in this process's memory. Each call makes a world of its own: clone it to share it.
    pub fn in_process() -> Self {
        let backend = Backend::Memory(Box::new(Memory::new()));
        Self {
            inner: Arc::new(Inner { backend, mint: Arc::new(Mint::new()), prefix: "fairlane".to_owned() }),
        }
    }

    /// Everything in Redis 7 or later. Starts one background thread that hears wake-ups, renews leases and cleans up.
    ///
    /// # Errors
    /// [`Unavailable`](crate::Error::Unavailable) if it cannot be reached, unless
    /// [that may come later](RedisConfig::with_connect_later).
    #[cfg(feature = "redis")]
    pub async fn redis(config: RedisConfig) -> Result<Self> {
        let mint = Arc::new(Mint::new());
        let prefix = config.prefix.clone();
        let backend = Backend::Redis(Redis::connect(config, Arc::clone(&mint)).await?);
        Ok(Self { inner: Arc::new(Inner { backend, mint, prefix }) })
    }

    /// A lock that is passed on in order of arrival.
    pub fn fair_lock(&self, name: &str) -> FairLock {
        FairLock::new(self.clone(), name)
    }

    /// A lock without a line, to fail fast.
    pub fn lock(&self, name: &str) -> Lock {
        Lock::new(self.clone(), name)
    }

    /// Several fair locks as one.
    pub fn multi_lock<I>(&self, keys: I) -> MultiLock
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        MultiLock::new(self.clone(), keys)
    }

    /// `capacity` permits, handed out in order of arrival.
    pub fn semaphore(&self, name: &str, capacity: u32) -> Semaphore {
        Semaphore::new(self.clone(), name, capacity)
    }

    /// At most `limit` in any `window`.
    ///
    /// # Panics
    /// If `limit` is zero or `window` is under a millisecond.
    pub fn rate_limiter(&self, name: &str, limit: u32, window: Duration) -> RateLimiter {
        RateLimiter::new(self.clone(), name, limit, window)
    }

    /// One request at a time.
    pub fn guard(&self, name: &str) -> Guard {
        Guard::new(self.clone(), name)
    }

    /// Lanes that several processes share, of one kind.
    ///
    /// # Panics
    /// If this client is not one over Redis: lanes in one process are made by [`lane::Lanes::new`](crate::lane::Lanes::new).
    #[cfg(feature = "redis")]
    pub fn lanes(&self, kind: &str) -> SharedLanes {
        SharedLanes::over(Arc::new(Lanes::new(self.clone(), kind)))
    }

    /// Waits until everything that was dropped so far has been given back. Worth calling before the program ends.
    ///
    /// # Errors
    /// [`Unavailable`](crate::Error::Unavailable) if Redis could not be told; leases then end by themselves.
    pub async fn flush(&self) -> Result<()> {
        self.inner.backend.flush().await
    }

    pub(crate) fn backend(&self) -> &Backend {
        &self.inner.backend
    }

    pub(crate) fn mint(&self) -> &Mint {
        &self.inner.mint
    }

    /// The name under which a backend keeps something. The braces are Redis Cluster's hash tag, which keeps all keys
    /// of one thing in one slot; so names must not bring their own.
    pub(crate) fn base(&self, kind: &str, name: &str) -> Arc<str> {
        let prefix = &self.inner.prefix;
        if name.contains(['{', '}', '%']) {
            let name = name.replace('%', "%25").replace('{', "%7B").replace('}', "%7D");
            return format!("{prefix}:{kind}:{{{name}}}").into();
        }
        format!("{prefix}:{kind}:{{{name}}}").into()
    }
}
