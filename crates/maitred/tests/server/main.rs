//! The server, driven through HTTP: in this process where a test turns the clock or reaches below, as a process of its
//! own where it is killed.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod app;
mod apps;
mod audits;
mod bad_input;
mod board;
mod changes;
mod client;
mod contract;
mod crash;
mod crowd;
mod files;
mod house;
mod journeys;
mod listeners;
mod money;
mod moves;
mod on_postgres;
mod payments;
mod power;
mod process;
mod processes;
mod queue_tokens;
mod races;
mod rehearsals;
mod rooms;
mod rush;
mod seats;
mod shared;
mod shim;
mod steps;
mod tables;
mod terms;
mod trouble;
mod truth;
mod waiting;
mod waitlist;
mod wallets;
