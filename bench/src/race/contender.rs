//! Who takes part.

use crate::plot::Kind;
use crate::row_lock::Tally;

/// Whoever takes part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Contender {
    /// Spring Boot, Redisson's fair lock, one transaction; on virtual threads or on the system's.
    FairLock {
        /// Whether requests run on virtual threads.
        virtual_threads: bool,
    },
    /// Spring Boot with everything of the decision record in front: rate limiter, fair lock, semaphore, claim.
    Admission,
    /// A row lock, and nothing else.
    RowLock(Tally),
    /// maitred with its own files.
    Embedded,
    /// maitred over PostgreSQL and Redis, in so many processes.
    Shared(usize),
    /// Nobody: a server that answers a constant.
    Constant,
}

/// The first contender at its usual.
pub const SPRING: Contender = Contender::FairLock { virtual_threads: false };
/// The third at its usual.
pub const ROW_LOCK: Contender = Contender::RowLock(Tally::Sum);
/// What the aims are about.
pub const SHARED: Contender = Contender::Shared(1);

impl Contender {
    /// As tables and drawings call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::FairLock { virtual_threads: false } => "Spring + Redisson fair lock",
            Self::FairLock { virtual_threads: true } => "Spring + Redisson fair lock, virtual threads",
            Self::Admission => "Spring + Redisson limiter, fair lock, semaphore, claim",
            Self::RowLock(Tally::Sum) => "row lock",
            Self::RowLock(Tally::Kept) => "row lock, count kept in the row",
            Self::Embedded => "maitred embedded",
            Self::Shared(1) => "maitred, PostgreSQL + Redis",
            Self::Shared(3) => "maitred, PostgreSQL + Redis, 3 processes",
            Self::Shared(_) => "maitred, PostgreSQL + Redis, several processes",
            Self::Constant => "limit: HTTP with a constant answer",
        }
    }

    /// How it is drawn.
    pub fn kind(self) -> Kind {
        match self {
            Self::Embedded | Self::Shared(_) => Kind::Ours,
            Self::Constant => Kind::Limit,
            _ => Kind::Other,
        }
    }

    /// Whether it is ours.
    pub fn is_maitred(self) -> bool {
        self.kind() == Kind::Ours
    }

    /// Whether it takes long to start and longer to warm up.
    pub fn is_java(self) -> bool {
        matches!(self, Self::FairLock { .. } | Self::Admission)
    }
}
