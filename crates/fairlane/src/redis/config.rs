//! How to reach Redis, and how patient to be with it.

use std::fmt;
use std::time::Duration;

/// Which Redis there is.
#[derive(Clone)]
#[non_exhaustive]
pub enum Topology {
    /// One server, or one address that always leads to the right one.
    Single(String),
    /// A primary and its replicas: whichever says it is the primary is used, and looked for again when it fails.
    Replicated(Vec<String>),
    /// The same, by asking Sentinels.
    Sentinel {
        /// The Sentinels' addresses.
        sentinels: Vec<String>,
        /// What they call the primary.
        primary: String,
    },
    /// A Redis Cluster, found from some of its nodes.
    Cluster(Vec<String>),
}

impl fmt::Debug for Topology {
    /// Without addresses: they may contain passwords.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Single(_) => f.write_str("Single"),
            Self::Replicated(urls) => write!(f, "Replicated({})", urls.len()),
            Self::Sentinel { sentinels, primary } => write!(f, "Sentinel({}, {primary:?})", sentinels.len()),
            Self::Cluster(urls) => write!(f, "Cluster({})", urls.len()),
        }
    }
}

/// Settings of a Redis client. The defaults suit a Redis in the same data centre.
#[derive(Debug, Clone)]
pub struct RedisConfig {
    pub(crate) topology: Topology,
    pub(crate) prefix: String,
    pub(crate) call_timeout: Duration,
    pub(crate) attempts: u32,
    pub(crate) heartbeat: Duration,
    pub(crate) longest_line: u64,
    pub(crate) lane_lease: Duration,
    pub(crate) lane_grace: Duration,
    pub(crate) connect_later: bool,
}

/// A waiter is dead after this many missed heartbeats.
const MISSED_HEARTBEATS: u32 = 3;

impl RedisConfig {
    /// One server: `redis://127.0.0.1:6379/`.
    pub fn single(url: impl Into<String>) -> Self {
        Self::new(Topology::Single(url.into()))
    }

    /// A cluster, found from some of its nodes.
    pub fn cluster<I>(urls: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        Self::new(Topology::Cluster(urls.into_iter().map(Into::into).collect()))
    }

    /// Any topology.
    pub fn new(topology: Topology) -> Self {
        Self {
            topology,
            prefix: "fairlane".to_owned(),
            call_timeout: Duration::from_secs(1),
            attempts: 3,
            heartbeat: Duration::from_secs(1),
            longest_line: 1_000_000,
            lane_lease: Duration::from_secs(2),
            lane_grace: Duration::from_secs(1),
            connect_later: false,
        }
    }

    /// What all keys begin with; `fairlane` unless set. Must not contain braces.
    #[must_use]
    pub fn with_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into().replace(['{', '}'], "_");
        self
    }

    /// How long one sending of one command may take; 1 s unless set.
    #[must_use]
    pub fn with_call_timeout(mut self, timeout: Duration) -> Self {
        self.call_timeout = timeout;
        self
    }

    /// How often a command is sent before [`Unavailable`](crate::Error::Unavailable); 3 unless set.
    #[must_use]
    pub fn with_attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts.max(1);
        self
    }

    /// How often waiters show that they live; 1 s unless set. After three missed ones a waiter counts as dead, and a
    /// waiter whose turn it is has as long to claim it. All clients of a lock should agree.
    #[must_use]
    pub fn with_heartbeat(mut self, heartbeat: Duration) -> Self {
        self.heartbeat = heartbeat;
        self
    }

    /// How many may wait in one line; a million unless set.
    #[must_use]
    pub fn with_longest_line(mut self, longest: u64) -> Self {
        self.longest_line = longest;
        self
    }

    /// How long a [lane](crate::lanes) is kept for a runner that does not show that it lives; 2 s unless set.
    #[must_use]
    pub fn with_lane_lease(mut self, lease: Duration) -> Self {
        self.lane_lease = lease;
        self
    }

    /// How long a [lane](crate::lanes) that was lost waits for those who still hold places in it; 1 s unless set.
    #[must_use]
    pub fn with_lane_grace(mut self, grace: Duration) -> Self {
        self.lane_grace = grace;
        self
    }

    /// Makes [`Client::redis`](crate::Client::redis) succeed also while Redis cannot be reached: it is connected to in the
    /// background, or with the first call that finds it.
    #[must_use]
    pub fn with_connect_later(mut self) -> Self {
        self.connect_later = true;
        self
    }

    pub(crate) fn liveness(&self) -> Duration {
        self.heartbeat * MISSED_HEARTBEATS
    }

    /// Where this client hears of its turns.
    pub(crate) fn channel(&self) -> String {
        format!("{}:wake:", self.prefix)
    }

    /// Where clients hear of what was decided in lanes.
    pub(crate) fn lane_channel(&self) -> String {
        format!("{}:lane:", self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_shown() {
        let secret = "redis://guest:secret@127.0.0.1/";
        for config in [RedisConfig::single(secret), RedisConfig::cluster([secret])] {
            assert!(!format!("{config:?}").contains("secret"));
        }
    }
}
