//! What clients wrote down themselves, against what is stored.

use std::collections::{HashMap, HashSet};

use crate::finding::{Finding, Report};
use crate::ids::{Id, Slot, Ticket};
use crate::rows::{Database, Decision, Reservation};

/// How a visit ended, as a client was told it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// With this reservation.
    Won(Id),
    /// Decided against, with this code.
    Refused(String),
    /// Left the line before being decided.
    Left,
    /// Not let into the line, with this code.
    TurnedAway(String),
}

/// One answer, or the silence where one should have been.
#[derive(Debug, Clone)]
pub struct Told {
    /// When it was asked, in microseconds since any instant that all clients share.
    pub asked: u64,
    /// When the answer came.
    pub at: u64,
    /// The ticket that the answer named.
    pub ticket: Option<Ticket>,
    /// What it said about the end, if it was one.
    pub ending: Option<Ending>,
}

/// One person's wish for one slot: invoked, and then whatever was heard of it.
#[derive(Debug, Clone)]
pub struct Visit {
    /// Who.
    pub person: Id,
    /// For which slot.
    pub slot: Slot,
    /// With which key.
    pub key: Option<String>,
    /// All that was heard, in order. A visit without any [`Ending`] has an unknown one.
    pub told: Vec<Told>,
    /// It was paid, and the client was told so.
    pub paid: bool,
    /// Nothing was done since, and no deadline has passed, by which the place could have been lost again.
    pub keeps: bool,
}

impl Visit {
    /// How it ended; `None` if the client never learned it.
    pub fn ending(&self) -> Option<&Ending> {
        self.told.iter().find_map(|told| told.ending.as_ref())
    }

    fn endings(&self) -> impl Iterator<Item = &Ending> {
        self.told.iter().filter_map(|told| told.ending.as_ref())
    }
}

/// Audits what clients were told.
pub(crate) fn audit(database: &Database, visits: &[Visit], report: &mut Report) {
    report.counts.visits += visits.len() as u64;
    answers_agree(visits, report);
    promises_are_kept(database, visits, report);
    refusals_are_final(database, visits, report);
    misnumbered(visits, report);
}

fn answers_agree(visits: &[Visit], report: &mut Report) {
    let mut by_key: HashMap<(Id, &str), &Ending> = HashMap::new();
    for visit in visits {
        let (person, slot) = (visit.person, visit.slot);
        let Some(first) = visit.ending() else { continue };
        if visit.endings().any(|ending| ending != first) {
            report.find(Finding::TwoAnswers { person, slot });
        }
        // Whoever was not let in has used the key for nothing.
        let (Some(key), false) = (&visit.key, matches!(first, Ending::TurnedAway(_) | Ending::Left)) else {
            continue;
        };
        if *by_key.entry((person, key)).or_insert(first) != first {
            report.find(Finding::TwoAnswersForKey { person, key: key.clone() });
        }
    }
}

/// Every answered success is there; what is there beyond that is at most one for each visit of unknown end.
fn promises_are_kept(database: &Database, visits: &[Visit], report: &mut Report) {
    let stored: HashMap<Id, &Reservation> = database.reservations.iter().map(|row| (row.id, row)).collect();
    let mut unknown: HashMap<(Id, Slot), usize> = HashMap::new();
    let mut known = HashSet::new();
    for visit in visits {
        let (person, slot) = (visit.person, visit.slot);
        let Some(Ending::Won(reservation)) = visit.ending() else {
            *unknown.entry((person, slot)).or_default() += usize::from(visit.ending().is_none());
            continue;
        };
        let reservation = *reservation;
        known.insert(reservation);
        let row = stored.get(&reservation).filter(|row| row.person == person && row.ticket.slot() == slot);
        if row.is_none_or(|row| visit.keeps && !row.holds()) {
            report.find(Finding::PromiseLost { person, slot, reservation });
        }
        let paid =
            |row: &&&Reservation| row.paid > 0 && !["TEMPORARY", "EXPIRED"].contains(&row.status.as_str());
        if visit.paid && row.filter(paid).is_none() {
            report.find(Finding::PaymentLost { person, reservation });
        }
    }
    for row in database
        .reservations
        .iter()
        .filter(|row| row.reseats.is_none() && !row.offered && !known.contains(&row.id))
    {
        let (person, slot, reservation) = (row.person, row.ticket.slot(), row.id);
        match unknown.get_mut(&(person, slot)) {
            Some(left @ 1..) => *left -= 1,
            _ => report.find(Finding::NotAskedFor { person, slot, reservation }),
        }
    }
}

/// Every definite refusal is in the log, and whoever was not in line was not decided.
fn refusals_are_final(database: &Database, visits: &[Visit], report: &mut Report) {
    let mut refused: HashSet<(Id, Slot, String)> = HashSet::new();
    let mut decided = HashSet::new();
    for (slot, batch) in &database.batches {
        let Ok(decisions) = serde_json::from_str::<Vec<Decision>>(&batch.decisions) else { continue };
        for decision in decisions.into_iter().filter(Decision::is_guests) {
            decided.extend(decision.ticket);
            if let Some(code) = decision.refused.map(|refused| refused.code) {
                refused.insert((decision.person, *slot, code));
            }
        }
    }
    for visit in visits {
        let (person, slot) = (visit.person, visit.slot);
        match visit.ending() {
            Some(Ending::Refused(code)) if !refused.contains(&(person, slot, code.clone())) => {
                report.find(Finding::RefusalUnknown { person, slot, code: code.clone() });
            }
            Some(Ending::Left | Ending::TurnedAway(_)) => {
                let tickets = visit.told.iter().filter_map(|told| told.ticket);
                for ticket in tickets.filter(|ticket| decided.contains(ticket)) {
                    report.find(Finding::DecidedBehindTheirBack { person, slot, ticket });
                }
            }
            _ => {}
        }
    }
}

/// Whoever knew their number before somebody else of the same life came has the lower one.
fn misnumbered(visits: &[Visit], report: &mut Report) {
    let mut lines = HashMap::<(Slot, u64), Vec<_>>::new();
    for visit in visits {
        let Some(came) = visit.told.first().map(|told| told.asked) else { continue };
        let mut seen = HashSet::new();
        for told in &visit.told {
            let Some(ticket) = told.ticket.filter(|ticket| seen.insert(*ticket)) else { continue };
            lines.entry((ticket.slot(), ticket.epoch())).or_default().push((came, told.at, ticket));
        }
    }
    for mut line in lines.into_values() {
        let mut known: Vec<_> = line.iter().map(|(_, told, ticket)| (*told, ticket.number())).collect();
        known.sort_unstable();
        line.sort_unstable();
        let (mut known, mut highest) = (known.into_iter().peekable(), 0);
        for (came, _, ticket) in line {
            while let Some((_, earlier)) = known.next_if(|(told, _)| *told < came) {
                highest = highest.max(earlier);
            }
            if ticket.number() < highest {
                report.find(Finding::Misnumbered { ticket });
            }
        }
    }
}
