//! One request at a time: set if absent, with an owner and an end.

use std::time::Duration;

use crate::Client;
use crate::backend::Key;
use crate::error::Result;
use crate::queue::checked;

/// Refuses the second click.
///
/// # Guarantee
/// - Of any number of claims on a name, one succeeds until it is cleared by its owner or its time is over. The others
///   learn who owns it and for how much longer.
/// - Claiming again as the same owner succeeds and changes nothing, so a claim may be resent. Only the owner can keep
///   or clear it.
///
/// # Cost
/// One script each, O(1).
///
/// # Failure modes
/// It is a courtesy, not a safety: when Redis is emptied, claims are gone. What must not happen twice is forbidden
/// where it is stored.
#[derive(Debug, Clone)]
pub struct Guard {
    client: Client,
    key: Key,
}

/// What a claim came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claim {
    /// It is yours.
    Claimed,
    /// It is somebody else's.
    Held {
        /// Whose.
        owner: String,
        /// For how much longer, unless cleared.
        remaining: Duration,
    },
}

impl Guard {
    pub(crate) fn new(client: Client, name: &str) -> Self {
        let key = Key { name: name.into(), base: client.base("guard", name) };
        Self { client, key }
    }

    /// Claims it for `owner` until cleared, at most for `ttl`.
    ///
    /// # Errors
    /// [`EmptyKey`](crate::Error::EmptyKey), [`Unavailable`](crate::Error::Unavailable).
    pub async fn claim(&self, owner: &str, ttl: Duration) -> Result<Claim> {
        checked(&self.key.name)?;
        self.client.backend().claim(&self.key, owner, ttl).await
    }

    /// Keeps the owner's claim for `ttl` from now, and then lets it end. `false` if it is not the owner's.
    ///
    /// # Errors
    /// [`EmptyKey`](crate::Error::EmptyKey), [`Unavailable`](crate::Error::Unavailable).
    pub async fn keep(&self, owner: &str, ttl: Duration) -> Result<bool> {
        checked(&self.key.name)?;
        self.client.backend().keep_claim(&self.key, owner, ttl).await
    }

    /// Clears the owner's claim. `false` if there was none of this owner.
    ///
    /// # Errors
    /// [`EmptyKey`](crate::Error::EmptyKey), [`Unavailable`](crate::Error::Unavailable).
    pub async fn clear(&self, owner: &str) -> Result<bool> {
        checked(&self.key.name)?;
        self.client.backend().clear_claim(&self.key, owner).await
    }
}
