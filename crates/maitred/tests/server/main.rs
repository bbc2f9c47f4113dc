//! The server, driven through HTTP: in this process where a test turns the clock or reaches below, as a process of its
//! own where it is killed.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod app;
mod client;
mod journeys;
mod on_postgres;
#[path = "../../../store/tests/conformance/postgres/server.rs"]
#[expect(dead_code, reason = "the store's tests do more to it")]
mod postgres;
