//! Support for `#[locked]`, the lock that is declared on a function.
//!
//! [`macro@crate::locked`] describes the attribute. It takes a [`MultiLock`] on the keys, runs the function, and releases. A
//! panic or a cancelled call releases as well.
//!
//! # How errors reach the caller
//!
//! The function's error must be `From<fairlane::Error>`, and each case is a variant of its own:
//!
//! | case | error |
//! | --- | --- |
//! | a key is taken and `wait` is zero | [`Error::Busy`] |
//! | a key stayed taken for `wait` | [`Error::TimedOut`] |
//! | a value in a key is empty or blank | [`Error::EmptyKey`] |
//! | a collection was empty, and there is no other key | [`Error::NoKeys`] |
//! | the function succeeded, but the lease had ended before | [`Error::Lost`] |
//! | Redis did not answer | [`Error::Unavailable`] |
//!
//! ```
//! use fairlane::{Client, Error, locked};
//!
//! #[derive(Debug)]
//! enum BookingError {
//!     SeatTaken,
//!     Locks(Error),
//! }
//!
//! impl From<Error> for BookingError {
//!     fn from(error: Error) -> Self {
//!         match error {
//!             Error::Busy { .. } => Self::SeatTaken,
//!             other => Self::Locks(other),
//!         }
//!     }
//! }
//!
//! #[locked(client = locks, key = "seat:{seats[]}", wait = "0", lease = "3s")]
//! async fn hold(locks: &Client, seats: &[u32]) -> Result<usize, BookingError> {
//!     Ok(seats.len())
//! }
//! # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
//! assert_eq!(hold(&Client::in_process(), &[11, 12, 12]).await.unwrap(), 3);
//! # });
//! ```
//!
//! # Cost
//!
//! That of the [`MultiLock`]: one acquire and one release per key.

use std::fmt::Display;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::{Client, HeldAll, MultiLock};

/// The value of a hole in a key, trimmed. Used by the expansion of `#[locked]`.
///
/// # Errors
/// [`Error::EmptyKey`] if nothing is left of it: two different things must not lock the same key.
#[doc(hidden)]
pub fn part(value: &impl Display) -> Result<String> {
    let text = value.to_string();
    let text = text.trim();
    if text.is_empty() { Err(Error::EmptyKey) } else { Ok(text.to_owned()) }
}

/// Takes all keys. Used by the expansion of `#[locked]`.
///
/// # Errors
/// Those of [`MultiLock::try_acquire`].
#[doc(hidden)]
pub async fn acquire(
    client: &Client,
    keys: Result<Vec<String>>,
    wait_ms: u64,
    lease_ms: u64,
    sort: bool,
) -> Result<HeldAll> {
    let locks = MultiLock::new(client.clone(), keys?).with_lease(Duration::from_millis(lease_ms));
    let locks = if sort { locks } else { locks.in_given_order() };
    locks.try_acquire(Duration::from_millis(wait_ms)).await
}
