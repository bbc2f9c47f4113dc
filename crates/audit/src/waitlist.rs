//! The waitlist of a slot, replayed: whoever joins keeps the rank, what frees goes to the first party that fits, nobody is
//! passed over more than five times, and nothing is sold around those who wait.

use crate::finding::{Finding, Report};
use crate::ids::{Id, Slot, Ticket};
use crate::rows::Waiting;

/// So often a party may be passed over.
const PASSES: i64 = 5;

/// Those who wait, the first first.
#[derive(Debug, Default)]
pub(crate) struct List {
    parties: Vec<Waiting>,
}

impl List {
    pub(crate) fn join(&mut self, person: Id, party: i64, ticket: Ticket) {
        if self.parties.iter().all(|waiting| waiting.person != person) {
            self.parties.push(Waiting { person, party, rank: 0, passed: 0, ticket });
        }
    }

    pub(crate) fn leave(&mut self, person: Id) {
        self.parties.retain(|waiting| waiting.person != person);
    }

    /// Whether what is left is kept for somebody.
    pub(crate) fn keeps(&self) -> bool {
        self.parties.iter().any(|waiting| waiting.passed >= PASSES)
    }

    /// Somebody who is not on the list takes a place. `fits` tells whether a party would certainly have had room.
    pub(crate) fn sold(&mut self, slot: Slot, to: Id, fits: impl Fn(i64) -> bool, report: &mut Report) {
        let passed =
            |waiting: &Waiting| waiting.person != to && (waiting.passed >= PASSES || fits(waiting.party));
        if let Some(waiting) = self.parties.iter().find(|waiting| passed(waiting)) {
            report.find(Finding::SoldAroundTheList { slot, waiting: waiting.person, to });
        }
        self.parties.iter_mut().for_each(|waiting| waiting.passed += 1);
    }

    /// Somebody is offered a place; the ticket with which they joined.
    pub(crate) fn offer(
        &mut self,
        slot: Slot,
        to: Id,
        fits: impl Fn(i64) -> bool,
        report: &mut Report,
    ) -> Option<Ticket> {
        let Some(at) = self.parties.iter().position(|waiting| waiting.person == to) else {
            report.find(Finding::OfferedToNobody { slot, person: to });
            return None;
        };
        let passed = |waiting: &&Waiting| waiting.passed >= PASSES || fits(waiting.party);
        if let Some(waiting) = self.parties[..at].iter().find(passed) {
            report.find(Finding::OfferedOutOfTurn { slot, waiting: waiting.person, to });
        }
        self.parties[..at].iter_mut().for_each(|waiting| waiting.passed += 1);
        Some(self.parties.remove(at).ticket)
    }

    /// Those who are stored are those who wait, in the same order.
    pub(crate) fn compare(&self, slot: Slot, stored: &[Waiting], report: &mut Report) {
        let mut stored: Vec<&Waiting> = stored.iter().collect();
        stored.sort_by_key(|waiting| waiting.rank);
        let told = |waiting: &Waiting| (waiting.person, waiting.party, waiting.passed, waiting.ticket);
        if !self.parties.iter().map(told).eq(stored.iter().map(|waiting| told(waiting))) {
            report.find(Finding::WaitlistDiffers { slot });
        }
    }
}
