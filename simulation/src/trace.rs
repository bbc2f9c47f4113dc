//! What happened, line by line. The hash tells two runs apart without keeping the lines.

use std::hash::{DefaultHasher, Hasher};

/// What happened in one world.
#[derive(Default)]
pub struct Trace {
    /// Kept only where somebody wants to read them: when, in µs, about which slot, and what.
    pub lines: Option<Vec<(u64, Option<i64>, String)>>,
    hasher: DefaultHasher,
}

impl Trace {
    /// A trace whose lines are kept, or only hashed.
    pub fn new(kept: bool) -> Self {
        Self { lines: kept.then(Vec::new), hasher: DefaultHasher::new() }
    }

    /// Something happened.
    pub fn note(&mut self, at: u64, slot: Option<i64>, what: String) {
        self.hasher.write_u64(at);
        self.hasher.write(what.as_bytes());
        if let Some(lines) = &mut self.lines {
            lines.push((at, slot, what));
        }
    }

    /// Names all that happened.
    pub fn hash(&self) -> u64 {
        self.hasher.finish()
    }
}
