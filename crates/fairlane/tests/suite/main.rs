//! The contract of every primitive, over both backends, and over a Redis that fails in every way we know.
//!
//! `contract` holds the behaviours; each takes a world and passes in memory under paused time, on one Redis server and
//! on a six-node cluster. `faults` is about Redis only. Numbers in doc comments are those of the list of what fairlane
//! has to show.

#![expect(clippy::unwrap_used, reason = "a test that fails says where by panicking there")]

mod child;
mod contract;
mod faults;
mod lane;
mod lanes;
mod locked;
mod world;
