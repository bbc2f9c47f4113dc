//! Three processes that are to behave as one: they share a PostgreSQL database and, over Redis, their lines. They are
//! driven together, and one part after the other is taken away from them under load.
//!
//! A run in which no load flowed, or in which the fault did not strike, proves nothing and fails. After every run an
//! auditor that knows nothing of the rules compares what the guests were told with what is stored.

pub use cluster::{Cluster, MEMBERS, alone, places as room_for, slot as free_slot};
pub use embedded::Embedded;
pub use load::rounds;

mod audit;
mod cluster;
mod embedded;
mod facts;
mod guests;
mod load;

mod across;
mod clock;
mod cut;
mod database;
mod failover;
mod full;
mod jammed;
mod killed;
mod order;
mod overload;
mod paused;
mod rate;
mod redis;
mod redis_cluster;
