//! What every store promises, whichever database is behind it.
//!
//! The stories are written against `store::Store` alone. [`database`] is the one place that knows how a database of a
//! test's own is made, opened and sabotaged; what only one engine has stands in a module of its name.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod accounts;
mod batches;
mod database;
mod lists;
mod moves;
mod places;
mod races;
mod sqlite;
mod tickets;
mod venues;
mod wallets;
mod world;
