//! The auditor: derives from what is stored, and from what clients wrote down, whether anything happened that must never
//! happen. It knows the form of the rows and of the log, and shares no code with the rules by which the program decides.
//!
//! **What it trusts.** The rows that it is given were stored together: one snapshot. A venue that has never changed has
//! always offered what it offers now. Of one that has changed only the present is stored; there the log itself tells what
//! was left at every turn, and may tell of no more capacities than the venue can have had.
//!
//! **Capacity.** The log of a slot is replayed by version, expiry included. After every decision the places that are held
//! are counted again; what the log says was left must agree with it.
//!
//! **Order.** Guests are those who wanted a place: `book`, `reseat`, `move`, `join`. Those of one slot whose tickets are of one life
//! of the line (epoch) are decided in ascending number, and so are the others, its owners. Whoever is decided after a higher number is *out of order*: a finding, or only a
//! note where lines may have been parted for a while ([`Options::strict_order`]). It was
//! *overtaken* if it was refused for lack of room, and would have fitted into what was left together with what is held by those
//! of higher numbers who were decided before it. Numbers of different lives are never compared: each process without shared
//! lines has lives of its own, and a line that is lost begins a new one.
//!
//! **Rows and log.** Every reservation was made by exactly one decision and every decision that made one is stored; where it
//! stands and how large its party is are where legal moves have led it.
//!
//! **Waitlist.** The list of a slot is replayed with its log: what is offered goes to the first that fits, nobody is passed over
//! more than five times, and nothing is sold to somebody else that a party on the list could have had.
//!
//! **Money.** A wallet is the sum of its entries and was never below nothing; what a reservation counts as paid and as returned
//! is what the entries about it say, together with what providers have captured and returned for it. What a provider has captured
//! for nothing is returned or due, all of it.
//!
//! **Waiting rooms.** Numbers of an opening have no gaps and follow from arrival or from the draw, whose seed is the one that was
//! announced; people were let in by number, and never more of them were inside than the room ever held.
//!
//! **Clients.** Every answered success is there, every definite refusal is in the log and not there, an unknown end has
//! left nothing or one thing, and the same key got the same answer.

mod finding;
mod ids;
mod money;
mod room;
mod rows;
mod slot;
mod states;
mod visits;
mod waitlist;

use std::collections::BTreeMap;

pub use finding::{Counts, Finding, Note, Report};
pub use ids::{Id, Slot, Ticket};
pub use rows::{
    Batch, Database, Entry, Opening, Payment, PersonRows, Reservation, SlotRows, Token, Venue, Waiting,
};
pub use visits::{Ending, Told, Visit};

use rows::Terms;

/// How strictly time is judged, in milliseconds.
#[derive(Debug, Clone)]
pub struct Options {
    /// What time it is, since 1970; without it nothing is past its deadline.
    pub now: Option<i64>,
    /// How long after its deadline a hold may still be there.
    pub margin: i64,
    /// How far the clocks of processes may be apart.
    pub skew: i64,
    /// Everything has come to rest: what is past its deadline should have been swept.
    pub settled: bool,
    /// Lines were shared all the time, or never: whoever is out of order without harm is found too. While Redis is away each process
    /// decides those who stood in the shared line at it, in order, and knows nothing of the others; then that is noted.
    pub strict_order: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { now: None, margin: 60_000, skew: 5_000, settled: false, strict_order: true }
    }
}

/// An audit under way: venues first, then slot by slot and person by person, so that none of it has to be in memory at once.
#[derive(Debug, Default)]
pub struct Auditor {
    options: Options,
    venues: BTreeMap<i64, Terms>,
    report: Report,
}

impl Auditor {
    /// Begins one.
    pub fn new(options: Options) -> Self {
        Self { options, ..Self::default() }
    }

    /// Takes in a venue, before any of its slots.
    pub fn venue(&mut self, venue: &Venue) {
        let Some(terms) = Terms::of(venue) else {
            let what = format!("the settings of venue {}", venue.id);
            return self.report.find(Finding::Unreadable { what });
        };
        if terms.changes > 0 {
            self.report.note(Note::VenueChanged { venue: venue.id });
        }
        self.venues.insert(venue.id, terms);
    }

    /// Audits a slot.
    pub fn slot(&mut self, slot: Slot, rows: &SlotRows) {
        match self.venues.get(&slot.venue()) {
            Some(terms) => slot::audit(slot, rows, terms, &self.options, &mut self.report),
            None => self.report.find(Finding::NoVenue { slot }),
        }
    }

    /// Audits a person's money.
    pub fn person(&mut self, person: Id, rows: &PersonRows) {
        money::audit(person, rows, &mut self.report);
    }

    /// Audits an opening of a sale, with all tokens of its waiting room by arrival.
    pub fn opening(&mut self, opening: &Opening, tokens: &[Token]) {
        room::audit(opening, tokens, self.options.skew, &mut self.report);
    }

    /// What it came to.
    pub fn finish(self) -> Report {
        self.report
    }
}

/// Audits a whole database, and what clients were told of it.
pub fn audit(database: &Database, visits: &[Visit], options: Options) -> Report {
    let mut auditor = Auditor::new(options);
    for venue in &database.venues {
        auditor.venue(venue);
    }
    for (slot, rows) in by_slot(database) {
        auditor.slot(slot, &rows);
    }
    for (person, rows) in by_person(database) {
        auditor.person(person, &rows);
    }
    for (opening, tokens) in &database.openings {
        auditor.opening(opening, tokens);
    }
    let mut report = auditor.finish();
    if !visits.is_empty() {
        visits::audit(database, visits, &mut report);
    }
    report
}

fn by_slot(database: &Database) -> BTreeMap<Slot, SlotRows> {
    let mut slots: BTreeMap<Slot, SlotRows> = BTreeMap::new();
    for (slot, version) in &database.slots {
        slots.entry(*slot).or_default().version = Some(*version);
    }
    for row in &database.reservations {
        let made = row.ticket.slot();
        slots.entry(row.slot).or_default().reservations.push(row.clone());
        if made != row.slot {
            slots.entry(made).or_default().reservations.push(row.clone());
        }
    }
    for (slot, waiting) in &database.waiting {
        slots.entry(*slot).or_default().waiting.push(waiting.clone());
    }
    for (slot, seat, holder) in &database.seats {
        slots.entry(*slot).or_default().seats.push((seat.clone(), *holder));
    }
    for (slot, batch) in &database.batches {
        slots.entry(*slot).or_default().batches.push(batch.clone());
    }
    slots
}

fn by_person(database: &Database) -> BTreeMap<Id, PersonRows> {
    let mut people: BTreeMap<Id, PersonRows> = BTreeMap::new();
    for (person, balance) in &database.wallets {
        people.entry(*person).or_default().balance = Some(*balance);
    }
    for (person, entry) in &database.entries {
        people.entry(*person).or_default().entries.push(entry.clone());
    }
    for row in &database.reservations {
        people.entry(row.person).or_default().reservations.push(row.clone());
    }
    for (person, key, ticket) in &database.keys {
        people.entry(*person).or_default().keys.push((key.clone(), *ticket));
    }
    for (person, payment) in &database.payments {
        people.entry(*person).or_default().payments.push(payment.clone());
    }
    for rows in people.values_mut() {
        rows.entries.sort_by_key(|entry| entry.id);
    }
    people
}
