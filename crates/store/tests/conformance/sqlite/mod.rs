//! SQLite, in a file of the test's own.

mod database;
mod file;
#[path = "../suite.rs"]
mod suite;
