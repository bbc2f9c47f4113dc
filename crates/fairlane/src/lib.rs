//! Fair coordination: lines, locks and limits that serve in order of arrival.
//!
//! Each primitive has one module that states its contract; [`memory`] holds what runs inside one process.

pub mod lane;
pub mod memory;
