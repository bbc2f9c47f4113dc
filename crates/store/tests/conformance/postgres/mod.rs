//! PostgreSQL, in a database of the test's own on a server that all tests share.

pub mod database;
mod faults;
mod fitness;
#[path = "../suite.rs"]
mod suite;
mod tls;
