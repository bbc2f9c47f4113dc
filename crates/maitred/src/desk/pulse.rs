//! What has happened at each venue in the last minute, as this process saw it: for those who watch a rush.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use booking::{Outcome, SlotId, VenueId};
use tokio::time::Instant;

use super::ticket::{Answer, Ticket};

/// How far back it goes.
const MINUTE: usize = 60;
/// Waits that are kept of a venue, the last ones: enough for percentiles.
const WAITS: usize = 2_048;
/// A slot for which nobody has asked for so long is not looked at any more.
const QUIET: Duration = Duration::from_secs(600);
/// Slots of a venue that are kept in mind at most.
const SLOTS: usize = 1_024;

/// The pulses of all venues.
pub(super) struct Pulses {
    since: Instant,
    venues: Mutex<HashMap<VenueId, Pulse>>,
}

#[derive(Default)]
struct Pulse {
    /// By second since the beginning, the oldest first.
    seconds: VecDeque<(u64, Second)>,
    waits: VecDeque<(u64, Duration)>,
    slots: HashMap<SlotId, u64>,
}

/// What was decided in one second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Second {
    /// How many got what they wanted.
    pub seated: u32,
    /// How many did not.
    pub refused: u32,
    /// How many left the line.
    pub left: u32,
}

/// The last minute of a venue.
#[derive(Debug, Clone, Default)]
pub struct Beat {
    /// Second by second, the oldest first; the last one is not over yet.
    pub seconds: Vec<Second>,
    /// How long people waited for their answers, ascending.
    pub waits: Vec<Duration>,
    /// The slots that people have asked for lately.
    pub slots: Vec<SlotId>,
}

impl Pulses {
    pub(super) fn new() -> Self {
        Self { since: Instant::now(), venues: Mutex::default() }
    }

    fn now(&self) -> u64 {
        self.since.elapsed().as_secs()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<VenueId, Pulse>> {
        self.venues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Somebody stands in line for a slot.
    pub(super) fn entered(&self, slot: SlotId) {
        let now = self.now();
        let mut venues = self.lock();
        let pulse = venues.entry(slot.venue()).or_default();
        if pulse.slots.len() < SLOTS || pulse.slots.contains_key(&slot) {
            pulse.slots.insert(slot, now);
        }
    }

    /// Somebody has an answer.
    pub(super) fn settled(&self, ticket: &Ticket, answer: &Answer) {
        let now = self.now();
        let mut venues = self.lock();
        let pulse = venues.entry(ticket.id().slot.venue()).or_default();
        if pulse.seconds.back().is_none_or(|(second, _)| *second != now) {
            pulse.seconds.push_back((now, Second::default()));
            pulse.forget(now);
        }
        let Some((_, second)) = pulse.seconds.back_mut() else { return };
        match answer {
            Answer::Left => second.left += 1,
            Answer::Decided(settled) if !matches!(settled.outcome, Outcome::Refused(_)) => second.seated += 1,
            _ => second.refused += 1,
        }
        if pulse.waits.len() == WAITS {
            pulse.waits.pop_front();
        }
        pulse.waits.push_back((now, ticket.since.elapsed()));
    }

    /// The last minute of a venue.
    pub(super) fn beat(&self, venue: VenueId) -> Beat {
        let now = self.now();
        let mut venues = self.lock();
        let Some(pulse) = venues.get_mut(&venue) else {
            return Beat { seconds: vec![Second::default(); MINUTE], ..Beat::default() };
        };
        pulse.forget(now);
        let known: HashMap<_, _> = pulse.seconds.iter().copied().collect();
        let from = (now + 1).saturating_sub(MINUTE as u64);
        let mut seconds = vec![Second::default(); MINUTE];
        for (at, second) in (from..=now).rev().zip(seconds.iter_mut().rev()) {
            *second = known.get(&at).copied().unwrap_or_default();
        }
        let mut waits: Vec<_> = pulse.waits.iter().map(|(_, wait)| *wait).collect();
        waits.sort_unstable();
        Beat { seconds, waits, slots: pulse.slots.keys().copied().collect() }
    }

    /// Forgets venues at which nothing happens.
    pub(super) fn tidy(&self) {
        let now = self.now();
        self.lock().retain(|_, pulse| {
            pulse.forget(now);
            !(pulse.slots.is_empty() && pulse.waits.is_empty())
        });
    }
}

impl Pulse {
    fn forget(&mut self, now: u64) {
        let old = |second: &u64| second + MINUTE as u64 <= now;
        while self.seconds.front().is_some_and(|(second, _)| old(second)) {
            self.seconds.pop_front();
        }
        while self.waits.front().is_some_and(|(second, _)| old(second)) {
            self.waits.pop_front();
        }
        self.slots.retain(|_, seen| *seen + QUIET.as_secs() > now);
    }
}
