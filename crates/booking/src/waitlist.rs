//! Who waits for a place in a slot that is sold out (D7).
//!
//! Whoever joins keeps the rank. A place that frees goes to the first party that fits; a party that is too large for it is
//! passed over, five times at most. From then on what frees is kept for it, and nobody behind it gets anything.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

use crate::ids::{PersonId, ReservationId, TicketId};

/// How often a party may be passed over by those behind it.
pub const MAX_PASSES: u32 = 5;
/// How many parties may wait for one slot.
pub const MAX_WAITING: usize = 1_000;

/// A party on the list of a slot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Waiting {
    /// Who.
    pub person: PersonId,
    /// The name the reservation will be made out to.
    pub name: Arc<str>,
    /// How many people.
    pub party: u32,
    /// The order in which they joined: less is earlier.
    pub rank: u32,
    /// How often others got a place that was too small for them.
    pub passed: u32,
    /// The place in line with which they joined; it wins the reservation that is offered.
    pub ticket: TicketId,
    /// The id that the offer will have.
    pub offer: ReservationId,
    /// When they joined.
    #[serde(with = "jiff::fmt::serde::timestamp::millisecond::required")]
    pub since: Timestamp,
}

impl Waiting {
    /// Whether others have been served before them often enough.
    fn is_passed_no_more(&self) -> bool {
        #[cfg(feature = "simulation")]
        if crate::flaws::has("passed-without-end") {
            return false;
        }
        self.passed >= MAX_PASSES
    }
}

/// The list of one slot, in order.
#[derive(Debug, Clone, Default)]
pub struct Waitlist {
    parties: Vec<Waiting>,
}

impl Waitlist {
    /// A list as the database knows it.
    pub fn restore(mut parties: Vec<Waiting>) -> Self {
        parties.sort_by_key(|party| party.rank);
        Self { parties }
    }

    /// Everybody on it, the first first.
    pub fn parties(&self) -> &[Waiting] {
        &self.parties
    }

    /// Whether nobody is on it.
    pub fn is_empty(&self) -> bool {
        self.parties.is_empty()
    }

    /// This person, if they are on it.
    pub fn find(&self, person: PersonId) -> Option<&Waiting> {
        self.parties.iter().find(|party| party.person == person)
    }

    /// Whether what is left is kept for somebody who has been passed over often enough.
    pub fn keeps_what_is_left(&self) -> bool {
        self.parties.iter().any(Waiting::is_passed_no_more)
    }

    /// The rank of whoever joins next.
    pub(crate) fn next_rank(&self) -> u32 {
        self.parties.last().map_or(1, |last| last.rank.saturating_add(1))
    }

    pub(crate) fn join(&mut self, party: Waiting) {
        self.parties.push(party);
    }

    pub(crate) fn leave(&mut self, person: PersonId) -> Option<Waiting> {
        let at = self.parties.iter().position(|party| party.person == person)?;
        Some(self.parties.remove(at))
    }

    /// The first that fits, unless somebody before it is not to be passed any more.
    pub fn first_that_fits(&self, mut fits: impl FnMut(&Waiting) -> bool) -> Option<&Waiting> {
        for party in &self.parties {
            if fits(party) {
                return Some(party);
            }
            if party.is_passed_no_more() {
                return None;
            }
        }
        None
    }

    /// Counts that everybody up to this rank has been passed over; who that was, as they are now.
    pub(crate) fn pass_before(&mut self, rank: u32) -> Vec<Waiting> {
        let passed = self.parties.iter_mut().filter(|party| party.rank < rank);
        passed
            .map(|party| {
                party.passed += 1;
                party.clone()
            })
            .collect()
    }
}
