//! The rules, checked over generated batches and told as short stories.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod between_processes;
mod changes_and_money;
mod payments;
mod properties;
mod rooms;
mod world;
