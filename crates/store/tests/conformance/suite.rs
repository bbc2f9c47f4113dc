//! The stories. Each engine includes them, beside a `database` module that makes, opens and sabotages one of its own.

mod accounts;
mod batches;
mod lists;
mod moves;
mod payments;
mod places;
mod races;
mod rooms;
mod seats;
mod tickets;
mod venues;
mod waitlists;
mod wallets;
pub mod world;
