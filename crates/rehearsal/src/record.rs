//! What became of each guest, in a few bytes.

use std::time::Duration;

/// How it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Outcome {
    /// Has a reservation.
    Seated,
    /// Was told that there is none.
    Refused,
    /// Lost patience and left the line.
    Left,
    /// Closed the page.
    Abandoned,
    /// Was told to come back until patience was over.
    TurnedAway,
    /// Never got an answer.
    Lost,
    /// Got an answer that the contract does not have.
    Unexplained,
}

impl Outcome {
    /// All of them, in the order in which they are told.
    pub const ALL: [Self; 7] = [
        Self::Seated,
        Self::Refused,
        Self::Left,
        Self::Abandoned,
        Self::TurnedAway,
        Self::Lost,
        Self::Unexplained,
    ];

    /// What it is called.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Seated => "seated",
            Self::Refused => "refused",
            Self::Left => "left",
            Self::Abandoned => "abandoned",
            Self::TurnedAway => "turned away",
            Self::Lost => "lost",
            Self::Unexplained => "unexplained",
        }
    }
}

/// A guest's evening. Times count from the beginning of the rehearsal.
#[derive(Debug, Clone)]
pub struct Record {
    /// Which guest.
    pub guest: u32,
    /// Which of the plan's slots.
    pub slot: u32,
    /// Party size.
    pub party: u32,
    /// When the plan had them come.
    pub arrived: Duration,
    /// When the request was first sent: later, where every connection was busy.
    pub sent: Duration,
    /// When their place in line was known.
    pub placed: Option<Duration>,
    /// Epoch and number of that place.
    pub place: Option<(u32, u64)>,
    /// How it ended.
    pub outcome: Outcome,
    /// When.
    pub settled: Duration,
    /// The code of a refusal.
    pub code: Option<&'static str>,
    /// What they won, also where they had stopped waiting for it.
    pub seating: Option<Box<Seating>>,
    /// Whether what they were told they won was there afterwards, where it was looked.
    pub is_there: Option<bool>,
    /// How many place-holding reservations they had in this slot afterwards, where it was looked.
    pub holds: Option<u32>,
}

/// What somebody won.
#[derive(Debug, Clone, Default)]
pub struct Seating {
    /// The id of the reservation.
    pub id: Box<str>,
    /// What has to be paid, in won.
    pub due: i64,
    /// From when, in milliseconds since 1970 by the server's clock.
    pub from: Option<i64>,
    /// Until when it holds its place unpaid.
    pub until: Option<i64>,
    /// The table, where there are tables.
    pub table: Option<u32>,
    /// The seats, where there are seats.
    pub seats: Vec<Box<str>>,
    /// Whether it was paid.
    pub paid: bool,
    /// Whether it was given up again.
    pub cancelled: bool,
    /// How long paying took.
    pub paying: Option<Duration>,
}

impl Record {
    /// Whether they were told that nothing is left that fits them.
    pub fn is_refused_for_want(&self) -> bool {
        matches!(self.code, Some("not-enough-places" | "table-unavailable" | "seat-taken"))
    }

    /// How long it took from coming to knowing.
    pub fn latency(&self) -> Duration {
        self.settled.saturating_sub(self.arrived)
    }
}
