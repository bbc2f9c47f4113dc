//! What can be seen while a rehearsal goes on.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::{Outcome, Record};

/// Counts everybody who comes and everybody who knows.
#[derive(Debug)]
pub struct Tally {
    arrived: AtomicU32,
    outcomes: [AtomicU32; Outcome::ALL.len()],
    /// Latencies in microseconds.
    latencies: Mutex<Histogram<u64>>,
    /// How many had an answer at which time, lately.
    lately: Mutex<VecDeque<(Instant, u32)>>,
}

/// A rehearsal at this moment.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct View {
    /// Guests who have come.
    pub arrived: u32,
    /// Who know nothing yet.
    pub waiting: u32,
    /// Who have a reservation.
    pub seated: u32,
    /// Who were told no.
    pub refused: u32,
    /// Who gave up: left, closed the page, or were told to come back until patience was over.
    pub gave_up: u32,
    /// Who got no answer, or one that the contract does not have.
    pub errors: u32,
    /// Answers a second, lately.
    pub pace: f64,
    /// Half of the answers came within so many milliseconds.
    pub p50: f64,
    /// All but one in a hundred came within so many.
    pub p99: f64,
}

impl Default for Tally {
    fn default() -> Self {
        // Three digits of a time of up to an hour: these bounds are always allowed.
        let latencies = Histogram::new_with_bounds(1, 3_600_000_000, 3)
            .unwrap_or_else(|_| unreachable!("the bounds of the histogram are fixed"));
        Self {
            arrived: AtomicU32::new(0),
            outcomes: Default::default(),
            latencies: Mutex::new(latencies),
            lately: Mutex::default(),
        }
    }
}

/// Over which time the pace is taken.
const LATELY: Duration = Duration::from_secs(2);

impl Tally {
    pub(crate) fn came(&self) {
        self.arrived.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn knows(&self, record: &Record) {
        self.outcomes[record.outcome as usize].fetch_add(1, Ordering::Relaxed);
        let micros = u64::try_from(record.latency().as_micros()).unwrap_or(u64::MAX);
        self.latencies.lock().unwrap_or_else(PoisonError::into_inner).saturating_record(micros.max(1));
    }

    /// How it stands.
    pub fn view(&self) -> View {
        let of = |outcome: Outcome| self.outcomes[outcome as usize].load(Ordering::Relaxed);
        let known: u32 = Outcome::ALL.iter().map(|outcome| of(*outcome)).sum();
        let arrived = self.arrived.load(Ordering::Relaxed);
        let (p50, p99) = {
            let latencies = self.latencies.lock().unwrap_or_else(PoisonError::into_inner);
            let at = |quantile| latencies.value_at_quantile(quantile) as f64 / 1_000.0;
            (at(0.5), at(0.99))
        };
        View {
            arrived,
            waiting: arrived.saturating_sub(known),
            seated: of(Outcome::Seated),
            refused: of(Outcome::Refused),
            gave_up: of(Outcome::Left) + of(Outcome::Abandoned) + of(Outcome::TurnedAway),
            errors: of(Outcome::Lost) + of(Outcome::Unexplained),
            pace: self.pace(known),
            p50,
            p99,
        }
    }

    fn pace(&self, known: u32) -> f64 {
        let mut lately = self.lately.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        lately.push_back((now, known));
        while lately.len() > 2 && lately.front().is_some_and(|(at, _)| now.duration_since(*at) > LATELY) {
            lately.pop_front();
        }
        let first = lately.front().copied().unwrap_or((now, known));
        let time = now.duration_since(first.0).as_secs_f64();
        if time < 0.05 { 0.0 } else { f64::from(known.saturating_sub(first.1)) / time }
    }
}
