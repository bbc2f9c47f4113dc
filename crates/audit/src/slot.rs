//! One slot: its log replayed batch by batch, and compared with its rows.
//!
//! Whoever goes to another slot is logged there. Here only the version moves on, so when exactly they left is known as a
//! range: from the first version without a batch after they were last seen, to the last such version. In between they may
//! hold places or not, and everything is judged by what is certain.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};

use crate::Options;
use crate::finding::{Counts, Finding, Note, Report};
use crate::ids::{Id, Slot, Ticket};
use crate::rows::{Decision, Offer, Reservation, SlotRows, Terms};
use crate::states::{PAID, REFUND_PENDING, States, TEMPORARY};
use crate::waitlist::List;

/// A batch that could be read.
struct Read {
    version: i64,
    decided_at: i64,
    decisions: Vec<Decision>,
}

/// How sure it is that a reservation is in the slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Presence {
    Here,
    Perhaps,
    Gone,
}

/// A reservation as the replay knows it.
#[derive(Debug, Clone)]
struct Held {
    person: Option<Id>,
    party: i64,
    states: States,
    presence: Presence,
}

struct Replay<'a> {
    slot: Slot,
    terms: &'a Terms,
    options: &'a Options,
    report: &'a mut Report,
    rows: HashMap<Id, &'a Reservation>,
    held: HashMap<Id, Held>,
    by_person: HashMap<Id, Id>,
    deadlines: BTreeSet<(i64, Id)>,
    /// What is held for certain, and what is held at most.
    least: i64,
    most: i64,
    /// What the capacity may be, and how often it has changed.
    capacity: (i64, i64),
    changed: i64,
    /// Whether the log says what was left in the unit in which the venue counts now.
    one_unit: bool,
    line: Line,
    list: List,
    /// The tickets with which those joined who were offered these.
    offered: HashMap<Id, Ticket>,
}

/// The guests of a slot in the order in which they were decided.
#[derive(Default)]
struct Line {
    /// The highest number so far, of guests and of owners, by life.
    highest: HashMap<(bool, u64), Ticket>,
    /// Who won, by life and number.
    won: BTreeMap<(u64, u64), (Ticket, Id)>,
}

/// Audits all that is stored about a slot.
pub(crate) fn audit(slot: Slot, rows: &SlotRows, terms: &Terms, options: &Options, report: &mut Report) {
    let batches = read(slot, rows, report);
    report.counts = Counts {
        slots: report.counts.slots + 1,
        batches: report.counts.batches + batches.len() as u64,
        decisions: report.counts.decisions + batches.iter().map(|b| b.decisions.len() as u64).sum::<u64>(),
        reservations: report.counts.reservations
            + rows.reservations.iter().filter(|r| r.slot == slot).count() as u64,
        ..report.counts
    };
    let logged = batches.last().map_or(0, |batch| batch.version);
    let stored = rows.version.unwrap_or(0);
    if stored < logged || rows.version.is_none() {
        report.find(Finding::WrongVersion { slot, stored, logged });
    }
    let gaps = gaps(&batches, stored, rows.reservations.len() + 1_000);
    each_once(slot, &batches, report);
    let capacity = terms.capacity();
    let mut replay = Replay {
        slot,
        terms,
        options,
        report,
        rows: rows.reservations.iter().map(|row| (row.id, row)).collect(),
        held: HashMap::new(),
        by_person: HashMap::new(),
        deadlines: BTreeSet::new(),
        least: 0,
        most: 0,
        capacity: if terms.changes == 0 { (capacity, capacity) } else { (0, i64::MAX) },
        changed: 0,
        one_unit: terms.changes == 0 || counts_people(terms, rows, &batches),
        line: Line::default(),
        list: List::default(),
        offered: HashMap::new(),
    };
    replay.run(&batches, &gaps);
    replay.compare_with_rows(&batches);
    replay.list.compare(slot, &rows.waiting, replay.report);
    rows_alone(slot, rows, terms, options, report);
}

fn read(slot: Slot, rows: &SlotRows, report: &mut Report) -> Vec<Read> {
    let mut batches = Vec::with_capacity(rows.batches.len());
    for batch in &rows.batches {
        match serde_json::from_str(&batch.decisions) {
            Ok(decisions) => {
                batches.push(Read { version: batch.version, decided_at: batch.decided_at, decisions });
            }
            Err(_) => {
                let what = format!("batch {} of {slot}", batch.version);
                report.find(Finding::Unreadable { what });
            }
        }
    }
    batches.sort_by_key(|batch| batch.version);
    for pair in batches.windows(2).filter(|pair| pair[0].version == pair[1].version) {
        report.find(Finding::BatchTwice { slot, version: pair[0].version });
    }
    batches
}

/// Whether a venue that has changed its settings has always counted people, as far as can be seen.
fn counts_people(terms: &Terms, rows: &SlotRows, batches: &[Read]) -> bool {
    let by_table = |decision: &Decision| {
        decision.refused.as_ref().is_some_and(|refused| refused.code == "table-unavailable")
    };
    matches!(terms.offer, Offer::Places { .. })
        && rows.reservations.iter().all(|row| row.table.is_none())
        && !batches.iter().flat_map(|batch| &batch.decisions).any(by_table)
}

/// Versions without a batch, the first so many.
fn gaps(batches: &[Read], stored: i64, most: usize) -> Vec<i64> {
    let known: HashSet<i64> = batches.iter().map(|batch| batch.version).collect();
    (1..=stored).filter(|version| !known.contains(version)).take(most).collect()
}

/// A ticket has one decision, in the log of its slot.
fn each_once(slot: Slot, batches: &[Read], report: &mut Report) {
    let mut seen = HashSet::new();
    for ticket in batches.iter().flat_map(|batch| &batch.decisions).filter_map(|d| d.ticket) {
        if !seen.insert(ticket) {
            report.find(Finding::DecidedTwice { ticket });
        }
        if ticket.slot() != slot {
            report.find(Finding::DecidedElsewhere { ticket, slot });
        }
    }
}

impl Replay<'_> {
    fn run(&mut self, batches: &[Read], gaps: &[i64]) {
        let pending = pending(batches, self.slot, &self.rows);
        let mut departures = Departures::new(batches, gaps, self.slot, &self.rows);
        for batch in batches {
            departures.until(batch.version, self);
            for (at, decision) in batch.decisions.iter().enumerate() {
                self.decide(batch, decision, pending.contains(&(batch.version, at)), &mut departures);
            }
        }
        departures.until(i64::MAX, self);
        departures.check(self);
    }

    fn decide(&mut self, batch: &Read, decision: &Decision, pends: bool, departures: &mut Departures) {
        // What ran out by itself is logged with what was left after it.
        if decision.ticket.is_some() {
            self.left_is_right(batch.version, decision);
        }
        self.in_order(decision);
        if let Some(refused) = &decision.refused {
            self.refused_rightly(batch, decision, &refused.code);
        } else if let Some(reservation) = decision.reservation.filter(|_| decision.verdict != "join") {
            self.done(batch, decision, reservation, pends, departures);
        } else {
            self.noted(decision);
        }
        if decision.ticket.is_none() {
            self.left_is_right(batch.version, decision);
        }
    }

    /// What the log says was left fits what was held, with one capacity, or with as many as the venue may have had.
    fn left_is_right(&mut self, version: i64, decision: &Decision) {
        if self.list.keeps() {
            // It is kept for somebody, whatever it is.
            if decision.left != 0 {
                let (slot, told) = (self.slot, decision.left);
                self.report.find(Finding::WrongLeft { slot, version, told, left: 0 });
            }
            return;
        }
        // A venue that has changed may have been one for a single party, which leaves 1 of an empty slot.
        let alone = self.terms.changes > 0 && decision.left == 1 && self.most == 0;
        if !self.one_unit || alone {
            return;
        }
        if let Offer::Exclusive = self.terms.offer {
            let (least, most) = (i64::from(self.most == 0), i64::from(self.least == 0));
            if !(least..=most).contains(&decision.left) {
                let (slot, told) = (self.slot, decision.left);
                self.report.find(Finding::WrongLeft { slot, version, told, left: most });
            }
            return;
        }
        let told = match decision.left {
            0 => (0, self.most),
            left => (left + self.least, left + self.most),
        };
        let both = (told.0.max(self.capacity.0), told.1.min(self.capacity.1));
        if both.0 <= both.1 {
            if self.terms.changes > 0 {
                self.capacity = both;
            }
        } else if self.changed < self.terms.changes {
            self.changed += 1;
            self.capacity = told;
        } else {
            let left = (self.capacity.1.saturating_sub(self.least)).max(0);
            self.report.find(Finding::WrongLeft { slot: self.slot, version, told: decision.left, left });
        }
    }

    fn refused_rightly(&mut self, batch: &Read, decision: &Decision, code: &str) {
        let Some(ticket) = decision.ticket else { return };
        let (slot, party, left) = (self.slot, decision.party, decision.left);
        if decision.lacked_room() && decision.is_guests() {
            let late = (batch.decided_at.saturating_sub(self.options.margin), Id(0));
            if let Some(&(_, reservation)) = self.deadlines.range(..late).next() {
                self.report.find(Finding::ExpiredHoldCounted { slot, ticket, reservation });
            }
        }
        let wrong = match (&self.terms.offer, decision.verdict.as_str()) {
            // What it wants instead of what it has is another matter.
            (_, "change") => false,
            // How many are together, or which are taken, is not in the log.
            _ if code == "seat-taken" => {
                left == self.terms.capacity() && self.terms.changes == 0 && party <= self.terms.together()
            }
            _ if decision.lacked_room()
                && decision.refused.as_ref().and_then(|r| r.remaining) != Some(left) =>
            {
                true
            }
            // Of somebody who is reseated the log does not say how many they are.
            (Offer::Places { .. }, "book" | "move") if decision.lacked_room() => {
                party <= left && !self.is_here(decision)
            }
            (Offer::Exclusive, _) if decision.lacked_room() => left > 0 && !self.is_here(decision),
            (Offer::Tables { tables }, "book") if decision.lacked_room() => {
                left > 0 && self.terms.changes == 0 && tables.iter().all(|table| table.seats >= party)
            }
            (_, "book") if code == "already-booked" => !self.may_have_a_place(decision.person),
            _ => false,
        };
        if wrong {
            let code = code.to_owned();
            self.report.find(Finding::WronglyRefused { slot, ticket, code, party, left });
        }
    }

    fn is_here(&self, decision: &Decision) -> bool {
        let held = decision.reservation.and_then(|id| self.held.get(&id));
        held.is_some_and(|held| held.presence != Presence::Gone)
    }

    fn may_have_a_place(&self, person: Id) -> bool {
        self.by_person.contains_key(&person)
            || self.held.values().any(|held| {
                held.presence != Presence::Gone && held.person.is_none_or(|somebody| somebody == person)
            })
    }

    /// A decision that was carried out.
    fn done(&mut self, batch: &Read, decision: &Decision, id: Id, pends: bool, departures: &mut Departures) {
        let verdict = decision.verdict.as_str();
        let before = self.held.get(&id).cloned();
        let person = self.rows.get(&id).map(|row| row.person);
        let after = match (verdict, before) {
            // A wish that stood in line twice is done once.
            ("book" | "reseat" | "offer", Some(_)) => return,
            ("book" | "offer", None) => Held {
                person: person.or(Some(decision.person)),
                party: decision.party,
                states: TEMPORARY,
                presence: Presence::Here,
            },
            ("reseat", None) => {
                Held { person, party: decision.party, states: PAID, presence: Presence::Here }
            }
            ("move", None) => {
                Held { person, party: decision.party, states: TEMPORARY.or(PAID), presence: Presence::Here }
            }
            (_, before) => {
                let from = before.as_ref().map(|held| held.states);
                // Somebody may have come back from another slot in another state than they left in.
                let from = from.map(|from| match before.as_ref().map(|held| held.presence) {
                    Some(Presence::Perhaps | Presence::Gone) if verdict == "move" => from.or(PAID),
                    _ => from,
                });
                let states = from.and_then(|from| from.after(verdict, pends)).unwrap_or_else(|| {
                    self.report.find(Finding::IllegalTransition {
                        slot: self.slot,
                        version: batch.version,
                        reservation: id,
                        verdict: verdict.to_owned(),
                    });
                    States::assumed(verdict, pends)
                });
                let party = if verdict == "change" || verdict == "move" {
                    decision.party
                } else {
                    before.as_ref().map_or(decision.party, |held| held.party)
                };
                let presence = if states.holds() { Presence::Here } else { Presence::Gone };
                let owner = before.and_then(|held| held.person).or(person);
                Held { person: owner, party, states, presence }
            }
        };
        if verdict == "expire" {
            self.not_early(batch, id);
        }
        if verdict == "offer" && self.terms.changes > 0 {
            // What a venue that has grown has more is offered before anybody is told what is left of it.
            self.capacity.1 = i64::MAX;
        }
        self.mind_the_list(decision, id, &after);
        departures.seen(id);
        self.put(batch.version, id, after);
        if let Some((ticket, true)) = decision.ticket.map(|ticket| (ticket, decision.is_guests())) {
            self.line.won.insert((ticket.epoch(), ticket.number()), (ticket, id));
        }
    }

    /// Joining and leaving the list.
    fn noted(&mut self, decision: &Decision) {
        match (decision.verdict.as_str(), decision.ticket) {
            // The same wish under another ticket may come when its offer has been made.
            ("join", Some(ticket))
                if decision.reservation.is_none() && !self.by_person.contains_key(&decision.person) =>
            {
                self.list.join(decision.person, decision.party, ticket);
            }
            ("unlist", _) => self.list.leave(decision.person),
            _ => {}
        }
    }

    /// Whoever takes a place takes it from nobody who waits for one.
    fn mind_the_list(&mut self, decision: &Decision, id: Id, after: &Held) {
        let grows = self.held.get(&id).is_none_or(|before| before.party < after.party);
        // Asked for twice, a move brings nobody who is not here already.
        let moved = !grows && self.held.get(&id).is_some_and(|before| before.presence == Presence::Here);
        let certain = self.terms.changes == 0 && self.one_unit && self.least == self.most;
        let room = match (&self.terms.offer, certain) {
            (Offer::Places { capacity }, true) => capacity - self.most,
            _ => 0,
        };
        let free = certain && self.terms.offer == Offer::Exclusive && self.most == 0;
        let fits = |party: i64| party <= room || free;
        let (slot, person) = (self.slot, after.person.unwrap_or(decision.person));
        match decision.verdict.as_str() {
            "offer" => {
                let joined = self.list.offer(slot, person, fits, self.report);
                self.offered.extend(joined.map(|ticket| (id, ticket)));
            }
            "move" if moved => self.list.leave(person),
            "book" | "reseat" | "move" => {
                self.list.sold(slot, person, fits, self.report);
                self.list.leave(person);
            }
            "change" if grows => {
                self.list.sold(slot, person, |_| false, self.report);
                self.list.leave(person);
            }
            _ => {}
        }
    }

    fn not_early(&mut self, batch: &Read, id: Id) {
        let Some(deadline) = self.rows.get(&id).map(|row| row.expires_at) else { return };
        let early = deadline.saturating_sub(batch.decided_at);
        if early > self.options.skew {
            self.report.find(Finding::ExpiredEarly { reservation: id, early });
        }
    }

    /// Takes in a reservation as it is now; whoever takes more than before must find it.
    fn put(&mut self, version: i64, id: Id, after: Held) {
        let own = self.remove(id);
        let taken = if after.presence == Presence::Here { self.terms.takes(after.party) } else { 0 };
        self.least += taken;
        self.most += taken;
        if self.one_unit && taken > own && self.least > self.capacity.1 {
            let (slot, held, capacity) = (self.slot, self.least, self.capacity.1);
            self.report.find(Finding::Oversold { slot, version, held, capacity });
        }
        if let (Presence::Here, Some(person)) = (after.presence, after.person)
            && let Some(first) = self.by_person.insert(person, id)
        {
            self.report.find(Finding::BookedTwice { slot: self.slot, person, first, second: id });
        }
        if let (Presence::Here, TEMPORARY, Some(row)) = (after.presence, after.states, self.rows.get(&id)) {
            self.deadlines.insert((row.expires_at, id));
        }
        self.held.insert(id, after);
    }

    /// Forgets what a reservation held; how much it was for certain.
    fn remove(&mut self, id: Id) -> i64 {
        let Some(held) = self.held.get(&id).cloned() else { return 0 };
        let taken = self.terms.takes(held.party);
        if held.presence != Presence::Gone {
            self.most -= taken;
        }
        let certain = if held.presence == Presence::Here { taken } else { 0 };
        self.least -= certain;
        if let Some(person) = held.person.filter(|person| self.by_person.get(person) == Some(&id)) {
            self.by_person.remove(&person);
        }
        if let Some(row) = self.rows.get(&id) {
            self.deadlines.remove(&(row.expires_at, id));
        }
        certain
    }

    /// Makes it less sure that a reservation is here.
    fn fade(&mut self, id: Id, presence: Presence) {
        self.remove(id);
        let taken = self.held.get(&id).map_or(0, |held| self.terms.takes(held.party));
        if let Some(held) = self.held.get_mut(&id) {
            held.presence = presence;
        }
        if presence == Presence::Perhaps {
            self.most += taken;
        }
    }

    /// The guests of one life of a line are decided in the order of their numbers, and so are its owners.
    fn in_order(&mut self, decision: &Decision) {
        let Some(ticket) = decision.ticket else { return };
        let side = (decision.is_guests(), ticket.epoch());
        let highest = *self.line.highest.entry(side).or_insert(ticket);
        if highest <= ticket {
            self.line.highest.insert(side, ticket);
            return;
        }
        let slot = self.slot;
        let judged = decision.is_guests() && decision.lacked_room();
        let by = self.overtaken(ticket, decision).filter(|_| judged);
        match by {
            Some(by) => self.report.find(Finding::Overtaken { slot, ticket, by }),
            None if self.options.strict_order => {
                self.report.find(Finding::OutOfOrder { slot, ticket, after: highest });
            }
            None => self.report.note(Note::OutOfOrder { slot, ticket, after: highest }),
        }
    }

    /// Who holds what this one would have got, had those who came after it not been decided before it.
    fn overtaken(&self, ticket: Ticket, decision: &Decision) -> Option<Ticket> {
        let epoch = ticket.epoch();
        let later = self.line.won.range((epoch, ticket.number() + 1)..=(epoch, u64::MAX));
        let mut room = decision.left;
        for (_, (winner, id)) in later {
            let Some(held) = self.held.get(id).filter(|held| held.presence == Presence::Here) else {
                continue;
            };
            let fits = match &self.terms.offer {
                Offer::Seats { .. } => false,
                Offer::Places { .. } => {
                    room += held.party;
                    decision.party <= room
                }
                Offer::Exclusive => true,
                Offer::Tables { .. } => {
                    let table = self.rows.get(id).and_then(|row| row.table);
                    decision.party <= table.and_then(|table| self.terms.seats(table)).unwrap_or(held.party)
                }
            };
            if fits {
                return Some(*winner);
            }
        }
        None
    }

    /// The rows are where the log has led them, and every row was led there by the log.
    fn compare_with_rows(&mut self, batches: &[Read]) {
        let mut made: HashMap<Id, Ticket> = HashMap::new();
        for decision in batches.iter().flat_map(|batch| &batch.decisions) {
            let makes = ["book", "reseat"].contains(&decision.verdict.as_str()) && decision.refused.is_none();
            if let (true, Some(id), Some(ticket)) = (makes, decision.reservation, decision.ticket) {
                made.entry(id).or_insert(ticket);
            }
        }
        made.extend(self.offered.iter().map(|(&id, &ticket)| (id, ticket)));
        for (&reservation, &ticket) in &made {
            if self.rows.get(&reservation).is_none_or(|row| row.ticket != ticket) {
                self.report.find(Finding::Unmade { ticket, reservation });
            }
        }
        for (&reservation, row) in &self.rows {
            let slot = self.slot;
            if row.ticket.slot() == slot && made.get(&reservation) != Some(&row.ticket) {
                self.report.find(Finding::Undecided { reservation, slot });
                continue;
            }
            let Some(held) = self.held.get(&reservation) else {
                self.report.find(Finding::Undecided { reservation, slot });
                continue;
            };
            if row.slot != slot {
                continue;
            }
            if !held.states.are(&row.status, &row.payment) {
                self.report.find(Finding::WrongStatus { reservation, status: row.status.clone() });
            }
            if held.party != row.party {
                let (party, decided) = (row.party, held.party);
                self.report.find(Finding::WrongParty { reservation, party, decided });
            }
        }
    }
}

/// Cancellations and refunds after which money stayed due, and with it the places taken, by version and position in the batch.
fn pending(batches: &[Read], slot: Slot, rows: &HashMap<Id, &Reservation>) -> HashSet<(i64, usize)> {
    let mut returned = HashSet::new();
    let mut pending = HashSet::new();
    for batch in batches.iter().rev() {
        for (at, decision) in batch.decisions.iter().enumerate().rev() {
            let (None, Some(id)) = (&decision.refused, decision.reservation) else { continue };
            let still =
                || rows.get(&id).is_some_and(|row| row.slot == slot && row.status == "REFUND_PENDING");
            match decision.verdict.as_str() {
                "refund" | "returned" => {
                    let more_follows = !returned.insert(id);
                    if more_follows || still() {
                        pending.insert((batch.version, at));
                    }
                }
                "cancel" if returned.remove(&id) || still() => drop(pending.insert((batch.version, at))),
                _ => {}
            }
        }
    }
    pending
}

/// When those who went to another slot may have left, and when they must have.
struct Departures {
    gaps: Vec<i64>,
    next: usize,
    /// How each of those who may leave is still to be seen here: whether it comes from elsewhere each time.
    ahead: HashMap<Id, VecDeque<bool>>,
    /// Those of whom the row is not here in the end.
    elsewhere: HashSet<Id>,
    /// Those who were made here.
    made: HashSet<Id>,
    explained: HashSet<i64>,
}

impl Departures {
    fn new(batches: &[Read], gaps: &[i64], slot: Slot, rows: &HashMap<Id, &Reservation>) -> Self {
        let mut ahead: HashMap<Id, VecDeque<bool>> = HashMap::new();
        let mut made = HashSet::new();
        for decision in batches.iter().flat_map(|batch| &batch.decisions) {
            let (None, Some(id)) = (&decision.refused, decision.reservation) else { continue };
            let makes = ["book", "reseat", "offer"].contains(&decision.verdict.as_str());
            // The second time round nothing happens, wherever it is by then.
            if !makes || (!ahead.contains_key(&id) && made.insert(id)) {
                ahead.entry(id).or_default().push_back(decision.verdict == "move");
            }
        }
        let is_elsewhere = |id: &Id| rows.get(id).is_none_or(|row| row.slot != slot);
        let elsewhere: HashSet<Id> = ahead.keys().filter(|id| is_elsewhere(id)).copied().collect();
        ahead.retain(|id, comes| elsewhere.contains(id) || comes.contains(&true));
        Self { gaps: gaps.to_vec(), next: 0, ahead, elsewhere, made, explained: HashSet::new() }
    }

    /// A reservation was seen here.
    fn seen(&mut self, id: Id) {
        self.ahead.get_mut(&id).map(VecDeque::pop_front);
    }

    /// Passes the versions without a batch before this one.
    fn until(&mut self, version: i64, replay: &mut Replay<'_>) {
        while let Some(&gap) = self.gaps.get(self.next).filter(|gap| **gap < version) {
            self.next += 1;
            let last = self.next == self.gaps.len();
            let may_leave = |id: &Id, comes: &VecDeque<bool>| {
                let held = replay.held.get(id);
                let here =
                    held.is_some_and(|held| held.presence != Presence::Gone && held.states != REFUND_PENDING);
                here && comes.front().copied().unwrap_or(self.elsewhere.contains(id))
            };
            let leaving: Vec<(Id, bool)> = self
                .ahead
                .iter()
                .filter(|(id, comes)| may_leave(id, comes))
                .map(|(id, comes)| (*id, last && comes.is_empty()))
                .collect();
            if !leaving.is_empty() {
                self.explained.insert(gap);
            }
            for (id, for_good) in leaving {
                replay.fade(id, if for_good { Presence::Gone } else { Presence::Perhaps });
            }
        }
    }

    /// Every version without a batch is one at which somebody left, and whoever left did so at one.
    fn check(&self, replay: &mut Replay<'_>) {
        let slot = replay.slot;
        for &version in self.gaps.iter().filter(|gap| !self.explained.contains(gap)) {
            replay.report.find(Finding::BatchMissing { slot, version });
        }
        for &reservation in &self.elsewhere {
            let stays = replay.held.get(&reservation).is_some_and(|held| held.presence == Presence::Here);
            // One that was made here and is not stored at all is reported as that.
            if stays && (replay.rows.contains_key(&reservation) || !self.made.contains(&reservation)) {
                replay.report.find(Finding::LeftUnseen { reservation, slot });
            }
        }
    }
}

/// What the rows say without the log.
fn rows_alone(slot: Slot, rows: &SlotRows, terms: &Terms, options: &Options, report: &mut Report) {
    let (mut people, mut tables, mut held) = (HashMap::new(), HashMap::new(), 0);
    seats_alone(slot, rows, terms, report);
    for row in rows.reservations.iter().filter(|row| row.slot == slot) {
        money_fits_status(row, report);
        if let (Some(now), "TEMPORARY") = (options.now, row.status.as_str()) {
            let late = now.saturating_sub(row.expires_at);
            if late > options.margin {
                if options.settled {
                    report.find(Finding::HeldTooLong { reservation: row.id, slot, late });
                } else {
                    report.note(Note::NotSwept { reservation: row.id, slot, late });
                }
            }
        }
        if !row.holds() {
            continue;
        }
        held += terms.takes(row.party);
        if let Some(first) = people.insert(row.person, row.id) {
            report.find(Finding::BookedTwice { slot, person: row.person, first, second: row.id });
        }
        let Some(table) = row.table else { continue };
        if let Some(first) = tables.insert(table, row.id) {
            report.find(Finding::TableTwice { slot, table, first, second: row.id });
        }
        if terms.changes == 0 && terms.seats(table).is_none_or(|seats| seats < row.party) {
            report.find(Finding::WrongTable { slot, reservation: row.id, table });
        }
    }
    let capacity = terms.capacity();
    if terms.changes == 0 && held > capacity {
        report.find(Finding::OversoldNow { slot, held, capacity });
    }
}

/// Every seat is held once, by whom the table of held seats says.
fn seats_alone(slot: Slot, rows: &SlotRows, terms: &Terms, report: &mut Report) {
    let mut taken: BTreeMap<&str, Id> = BTreeMap::new();
    for row in rows.reservations.iter().filter(|row| row.slot == slot && row.holds()) {
        let wanted = if let Offer::Seats { .. } = terms.offer { row.party } else { 0 };
        let known = terms.changes > 0 || row.seats.iter().all(|seat| terms.has_seat(seat));
        if terms.changes == 0 && i64::try_from(row.seats.len()) != Ok(wanted) || !known {
            let (party, seats) = (row.party, row.seats.clone());
            report.find(Finding::WrongSeats { slot, reservation: row.id, party, seats });
        }
        for seat in &row.seats {
            if let Some(first) = taken.insert(seat, row.id) {
                report.find(Finding::SeatTwice { slot, seat: seat.clone(), first, second: row.id });
            }
        }
    }
    let held: BTreeMap<&str, Id> = rows.seats.iter().map(|(seat, id)| (seat.as_str(), *id)).collect();
    let differs = |(seat, id): &(&&str, &Id)| held.get(**seat) != Some(id);
    let astray = |(seat, id): &(&&str, &Id)| taken.get(**seat) != Some(id);
    for (seat, _) in taken.iter().filter(differs).chain(held.iter().filter(astray)) {
        report.find(Finding::HeldSeatsDiffer { slot, seat: (*seat).to_owned() });
    }
}

/// What is paid, returned and due fits where a reservation stands.
fn money_fits_status(row: &Reservation, report: &mut Report) {
    let kept = row.paid - row.refunded;
    let bounds = row.paid >= 0 && row.refunded >= 0 && row.refund_due >= 0 && row.refund_due <= kept;
    let fits = match row.status.as_str() {
        "TEMPORARY" | "EXPIRED" => row.paid == 0 && row.refund_due == 0,
        "CONFIRMED" | "PREPAY_CONFIRM" | "COMPLETED" | "NO_SHOW" => kept - row.refund_due >= row.price,
        "REFUND_PENDING" => row.refund_due > 0,
        "REFUNDED" => row.refunded > 0 && row.refund_due == 0,
        _ => row.refund_due == 0,
    };
    if !bounds || !fits {
        report.find(Finding::StatusAndMoney {
            reservation: row.id,
            status: row.status.clone(),
            price: row.price,
            paid: row.paid,
            refunded: row.refunded,
            due: row.refund_due,
        });
    }
}
