//! What runs inside one process.

pub mod lane;
mod line;
