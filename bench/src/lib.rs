//! What the measurements share: the rows they write, the load they send, the figures they read.

pub mod constant;
pub mod contest;
pub mod desk;
pub mod in_line;
pub mod limits;
pub mod load;
pub mod locks;
pub mod machine;
pub mod plot;
pub mod race;
pub mod raw;
pub mod results;
pub mod row_lock;
pub mod rows;
pub mod served;
pub mod spring;
pub mod world;

/// A measurement that cannot be made says why.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// The middle one.
pub fn median(speeds: &mut [f64]) -> f64 {
    speeds.sort_by(f64::total_cmp);
    speeds[speeds.len() / 2]
}
