//! Fair coordination: lines, locks and limits that serve in order of arrival.
//!
//! The same primitives in one process or over Redis, with the same contract:
//!
//! | primitive | for |
//! | --- | --- |
//! | [`lane`] | a line of people served in batches, by one runner at a time; in one process |
//! | [`lanes`] | the same line, shared by several processes over Redis |
//! | [`FairLock`] | one at a time, first come, first served, with a place in line that survives a timeout |
//! | [`Lock`] | one at a time, fail fast |
//! | [`MultiLock`] | several keys, all or none, without deadlock |
//! | [`Semaphore`] | so many at a time, first come, first served |
//! | [`RateLimiter`] | so many in any window |
//! | [`Guard`] | one request at a time per name, with an owner |
//!
//! Each has a page that states its guarantee, its cost and what happens when things fail.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
//! let client = fairlane::Client::in_process();
//! let held = client.fair_lock("seat:12").acquire().await?;
//! // … write with held.fencing_token() …
//! held.release().await?;
//! # Ok::<(), fairlane::Error>(()) }).unwrap();
//! ```
//!
//! # What a lock is worth
//!
//! A lease is a promise about time, and a paused process does not see time pass. Where a mistake costs something, let
//! the resource check the [fencing token](Held::fencing_token), or make the write conditional. Locks then give order and
//! speed, and the resource gives correctness.
//!
//! # Features
//!
//! Everything needs a tokio runtime with its timer enabled.
//!
//! `redis`: the Redis backend. `macros`: `#[locked]`, a lock declared on a function. Neither is on by default.

mod backend;
mod client;
mod error;
mod fair_lock;
mod guard;
mod held;
pub mod lane;
pub mod lanes;
mod lease;
mod lock;
#[cfg(feature = "macros")]
pub mod locked;
mod memory;
mod multi_lock;
mod queue;
mod rate_limiter;
#[cfg(feature = "redis")]
mod redis;
mod semaphore;
mod ticket;

#[cfg(feature = "redis")]
pub use crate::redis::{RedisConfig, Topology};
pub use client::Client;
pub use error::Error;
pub use fair_lock::FairLock;
#[cfg(feature = "macros")]
pub use fairlane_macros::locked;
pub use guard::{Claim, Guard};
pub use held::Held;
pub use lease::Lease;
pub use lock::Lock;
pub use multi_lock::{HeldAll, MultiLock};
pub use queue::Position;
pub use rate_limiter::{Pass, RateLimiter};
pub use semaphore::Semaphore;
pub use ticket::Ticket;
