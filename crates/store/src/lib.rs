//! The truth: whole transactions over the database, and nothing else.
//!
//! A caller never sees a connection, a row or a statement. It hands over a decided [`Batch`] or asks a question, and gets
//! back domain types. What protects places and money is in the schema and in the conditions of the statements:
//!
//! * a batch is stored only if the slot and the venue are still at the versions from which it was decided;
//! * partial unique indexes forbid two place-holding reservations of one person, and one table twice, in a slot;
//! * a ticket wins at most one reservation, and an `Idempotency-Key` belongs to one request;
//! * a wallet is debited only where its balance bears it.

mod audit;
mod backend;
mod error;
pub mod postgres;
mod records;
mod sqlite;
mod store;

#[cfg(feature = "controls")]
pub use audit::snapshot;
pub use audit::{Drawn, audit, audit_draws};
#[cfg(feature = "simulation")]
pub use backend::{Answer, Backend};
pub use error::{CommitError, Error};
pub use records::{
    Account, AccountError, Batch, Charge, ChargeError, DueRefund, Entry, LOOK_AGAIN, LOOK_FIRST, Logged,
    NewOpening, Occupancy, Overdue, Page, RequestKey, RoomBatch, StoredKey, ToLookAt,
};
#[cfg(feature = "controls")]
pub use store::Controls;
pub use store::{Database, Store};
