//! The maitred server: a request comes in once, is parsed once, waits holding nothing, is decided once, committed once,
//! answered once.
//!
//! Data flows one way through the modules: [`http`] parses and answers, [`admission`] says who may stand in line,
//! [`desk`] runs the lanes and decides, the store keeps the truth. [`sweeps`] tidy up, [`server`] puts everything
//! together, [`cli`] is the command line.

pub mod admission;
#[cfg(not(feature = "simulation"))]
mod chance;
#[cfg(feature = "simulation")]
pub mod chance;
pub mod cli;
pub mod clock;
pub mod config;
pub mod counter;
pub mod demo;
pub mod desk;
pub mod fresh;
pub mod http;
pub mod keyring;
pub mod passwords;
pub mod payments;
pub mod recent;
pub mod rehearsals;
pub mod rooms;
pub mod seating;
pub mod server;
pub mod signing;
pub mod sweeps;
pub mod synthetic;
pub mod venues;
pub mod wallets;
