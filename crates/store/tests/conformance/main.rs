//! What every store promises, whichever database is behind it.
//!
//! The stories of `suite.rs` are written against `store::Store` alone, and are compiled once for each engine. The engine's
//! `database` is the one place that knows how a database of a test's own is made, opened and sabotaged; what only one
//! engine has stands beside it.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
#![expect(clippy::duplicate_mod, reason = "the same stories are told to every engine")]

mod one_connection;
mod postgres;
mod sqlite;
