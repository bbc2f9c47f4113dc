//! Real servers for tests and benchmarks.
//!
//! Everything is started on a free port of the loopback interface, belongs to the value that started it, and ends with
//! it, by process id, also when a test panics. Nothing here is asynchronous: it works under any runtime and under
//! paused time.

mod cluster;
mod port;
mod postgres;
mod process;
mod proxy;
mod redis;

pub use cluster::RedisCluster;
pub use port::free_port;
pub use postgres::Postgres;
pub use process::{Process, signal, until};
pub use proxy::Proxy;
pub use redis::{RedisServer, Reply};
