//! The database in memory: rows, and the same conditions as the real ones. And as one simulated process sees it.

mod evidence;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use booking::room::{Opening, OpeningId, Room, Terms, Token};
use booking::venue::{MenuItem, Settings};
use booking::wallet::{EntryKind, MAX_BALANCE};
use booking::{
    Change, EventId, PaymentChange, PaymentId, PaymentStatus, PersonId, ProviderPayment, RefundId,
    Reservation, ReservationId, Slot, SlotId, Status, TicketId, Venue, VenueId, Waiting, Waitlist, Won,
    flaws,
};
use jiff::Timestamp;
use jiff::civil::Date;
use store::{
    Account, AccountError, Answer, Backend, Batch, Charge, ChargeError, CommitError, DueRefund, Entry, Error,
    LOOK_AGAIN, LOOK_FIRST, Logged, NewOpening, Occupancy, Overdue, Page, RequestKey, RoomBatch, ToLookAt,
};

use crate::auditor::{Committed, Line, Row};
use crate::hub::{Hub, Shared, To, call};
use crate::rooms::{Places, Rooms};

const TIMEOUT: Duration = Duration::from_millis(1_500);

/// All tables.
#[derive(Debug, Clone, Default)]
pub struct Rows {
    epoch: u32,
    venues: BTreeMap<u32, Venue>,
    slots: BTreeMap<SlotId, u64>,
    reservations: BTreeMap<u128, Arc<Reservation>>,
    of_slot: BTreeMap<SlotId, BTreeSet<u128>>,
    of_ticket: BTreeMap<u128, u128>,
    log: BTreeMap<TicketId, Logged>,
    /// The log as it is written.
    batches: BTreeMap<SlotId, Vec<audit::Batch>>,
    keys: BTreeMap<(u128, String), (RequestKey, i64)>,
    balances: BTreeMap<u128, i64>,
    entries: Vec<(u128, Option<String>, Entry)>,
    waiting: BTreeMap<(SlotId, PersonId), Waiting>,
    /// Openings and tokens.
    pub rooms: Rooms,
    outside: Outside,
}

/// Money that is with providers.
#[derive(Debug, Clone, Default)]
struct Outside {
    payments: BTreeMap<PaymentId, Kept>,
    /// Refunds that are due: when they are asked for next, and how often they were.
    asked: BTreeMap<RefundId, (i64, u32)>,
    events: BTreeSet<EventId>,
}

/// A payment, when it is looked at next, and how often it was.
#[derive(Debug, Clone)]
struct Kept {
    payment: ProviderPayment,
    look_at: i64,
    looks: u32,
}

fn millis(at: Timestamp) -> i64 {
    at.as_millisecond()
}

fn row(r: &Reservation) -> Row {
    Row {
        id: r.id.0,
        slot: r.slot.to_i64(),
        person: r.person.0,
        status: r.status().as_str(),
        party: r.party,
        table: r.table,
        seats: r.seats.iter().map(ToString::to_string).collect(),
        price: r.price.0,
        paid: r.paid.0,
        refunded: r.refunded.0,
        refund_due: r.refund_due.0,
        expires_at: millis(r.expires_at),
        ticket: r.ticket.to_u128(),
    }
}

impl Rows {
    /// Makes a venue.
    pub fn add_venue(&mut self, settings: Settings) -> VenueId {
        let number = u32::try_from(self.venues.len()).unwrap_or(0) + 1;
        let id = VenueId(number);
        self.venues.insert(number, Venue { id, version: 1, settings, menu: vec![], staff: vec![] });
        id
    }

    /// A venue as it is.
    pub fn venue(&self, id: VenueId) -> Option<Venue> {
        self.venues.get(&id.0).cloned()
    }

    /// Changes a venue; its version moves on.
    pub fn set_settings(&mut self, id: VenueId, version: u64, settings: Settings) -> bool {
        let venue = self.venues.get_mut(&id.0).filter(|venue| venue.version == version);
        venue.map(|venue| (venue.version, venue.settings) = (version + 1, settings)).is_some()
    }

    fn slot(&self, id: SlotId) -> Slot {
        let held = self.of_slot.get(&id).into_iter().flatten();
        let held = held.filter_map(|id| self.reservations.get(id));
        let held = held.filter(|r| r.status().holds_places()).map(|r| Reservation::clone(r));
        let waitlist = Waitlist::restore(self.waitlist(id));
        Slot::restore(id, self.slots.get(&id).copied().unwrap_or(0), held).with_waitlist(waitlist)
    }

    fn waitlist(&self, id: SlotId) -> Vec<Waiting> {
        let all = self.waiting.iter().filter(|((slot, _), _)| *slot == id);
        let mut all: Vec<_> = all.map(|(_, waiting)| waiting.clone()).collect();
        all.sort_by_key(|waiting| waiting.rank);
        all
    }

    fn put(&mut self, r: &Arc<Reservation>) {
        if let Some(before) = self.reservations.insert(r.id.0, r.clone()) {
            self.of_slot.entry(before.slot).or_default().remove(&r.id.0);
        }
        self.of_slot.entry(r.slot).or_default().insert(r.id.0);
        self.of_ticket.insert(r.ticket.to_u128(), r.id.0);
    }

    fn update(&mut self, change: &Change) -> Result<(), CommitError> {
        let before = self.reservations.get(&change.after.id.0);
        if before.is_none_or(|before| before.version != change.from_version) {
            return Err(CommitError::Stale);
        }
        self.is_alone(&change.after)?;
        self.put(&change.after);
        Ok(())
    }

    /// The partial unique indexes.
    fn is_alone(&self, r: &Reservation) -> Result<(), CommitError> {
        if !r.status().holds_places() || flaws::has("index-missing") {
            return Ok(());
        }
        for other in
            self.of_slot.get(&r.slot).into_iter().flatten().filter_map(|id| self.reservations.get(id))
        {
            let both = other.id != r.id && other.status().holds_places();
            let seat = r.seats.iter().any(|seat| other.seats.contains(seat));
            let seat = seat && !flaws::has("seat-taken-twice");
            if both && (other.person == r.person || r.table.is_some() && other.table == r.table || seat) {
                return Err(CommitError::Stale);
            }
        }
        Ok(())
    }

    /// Stores a batch, or nothing of it.
    pub fn commit(&mut self, batch: &Batch) -> Result<(u64, Committed), CommitError> {
        let before = self.clone_touched(batch);
        let stored = self.store(batch);
        if stored.is_err() {
            self.put_back(batch, before);
        }
        stored
    }

    fn store(&mut self, batch: &Batch) -> Result<(u64, Committed), CommitError> {
        let version = self.slots.get(&batch.slot).copied().unwrap_or(0);
        let venue = self.venues.get(&batch.slot.venue().0).map(|venue| venue.version);
        let fits = venue == Some(batch.venue_version) && version == batch.slot_version;
        if !fits && !flaws::has("no-version-check") {
            return Err(CommitError::Stale);
        }
        self.slots.insert(batch.slot, version + 1);
        let (inside, done) = self.rooms.inside_and_done(batch.slot.venue());
        let listed = !self.waitlist(batch.slot).is_empty() || !batch.changes.waitlist.is_empty();
        let changes = &batch.changes;
        let (freed, kept): (Vec<_>, Vec<_>) =
            changes.changed.iter().partition(|change| !change.after.status().holds_places());
        for change in &freed {
            self.update(change)?;
        }
        for change in kept.iter().filter(|change| change.frees) {
            if let Some(r) = self.reservations.get_mut(&change.after.id.0) {
                let r = Arc::make_mut(r);
                (r.table, r.seats) = (None, Arc::default());
            }
        }
        for change in &kept {
            self.update(change)?;
        }
        let left: BTreeSet<_> = changes.changed.iter().filter_map(|change| change.from_slot).collect();
        for slot in left {
            if !flaws::has("source-not-bumped") {
                *self.slots.entry(slot).or_default() += 1;
            }
        }
        for r in &changes.new {
            if !flaws::has("index-missing") {
                if self.of_ticket.contains_key(&r.ticket.to_u128()) {
                    return Err(CommitError::Decided(r.ticket));
                }
                if self.reservations.contains_key(&r.id.0) {
                    return Err(CommitError::Made(r.ticket));
                }
            }
            self.is_alone(r)?;
            self.put(r);
        }
        for person in changes.waitlist.iter().filter(|(_, now)| now.is_none()).map(|(person, _)| person) {
            self.waiting.remove(&(batch.slot, *person));
        }
        for now in changes.waitlist.values().flatten() {
            self.waiting.insert((batch.slot, now.person), now.clone());
            if self.waitlist(batch.slot).iter().filter(|other| other.rank == now.rank).count() > 1 {
                return Err(CommitError::Stale);
            }
        }
        for m in &changes.movements {
            let balance = self.balances.get(&m.person.0).copied().unwrap_or(0) + m.amount.0;
            if balance < 0 && !flaws::has("wallet-unchecked") {
                return Err(CommitError::Short(m.ticket));
            }
            self.balances.insert(m.person.0, balance);
            self.enter(m.person, m.amount, m.kind, Some(m.reservation), None, batch.decided_at);
        }
        self.store_payments(batch)?;
        for payer in batch.payers() {
            self.rooms.finish(batch.slot.venue(), payer, millis(batch.decided_at));
        }
        for key in &batch.keys {
            let name = (key.person.0, key.key.clone());
            if self.keys.contains_key(&name) {
                if flaws::has("key-not-unique") {
                    continue;
                }
                return Err(CommitError::KeyUsed(key.request.ticket));
            }
            self.keys.insert(name, (key.request, millis(batch.decided_at)));
        }
        self.batches.entry(batch.slot).or_default().push(audit::Batch {
            version: i64::try_from(version + 1).unwrap_or(i64::MAX),
            decided_at: millis(batch.decided_at),
            decisions: serde_json::to_string(&batch.decisions).unwrap_or_default(),
        });
        let mut lines = Vec::new();
        for decision in &batch.decisions {
            if let Some(ticket) = decision.ticket {
                let decided_at = batch.decided_at;
                self.log.entry(ticket).or_insert(Logged {
                    decision: decision.clone(),
                    decided_at,
                    batch: version + 1,
                });
            }
            lines.push(Line {
                ticket: decision.ticket.map(|ticket| (ticket.to_u128(), ticket.epoch(), ticket.number())),
                person: decision.person.0,
                verdict: decision.verdict.as_str(),
                party: decision.party,
                reservation: decision.reservation.map(|id| id.0),
                refused: decision.refused.map(|refusal| format!("{refusal:?}")),
            });
        }
        let committed = Committed {
            slot: batch.slot.to_i64(),
            venue: batch.slot.venue().0,
            version: version + 1,
            new: changes.new.iter().map(|r| row(r)).collect(),
            changed: changes.changed.iter().map(|change| row(&change.after)).collect(),
            lines,
            listed,
            finished: self.finished(batch.slot.venue(), &inside, &done),
        };
        Ok((version + 1, committed))
    }

    /// Who was inside the waiting room before a batch, and of those, who has finished with it.
    fn finished(&self, venue: VenueId, inside: &Places, done: &Places) -> BTreeMap<u128, bool> {
        let (_, now) = self.rooms.inside_and_done(venue);
        inside.iter().map(|place| (place.0, now.contains(place) && !done.contains(place))).collect()
    }

    /// Payments with providers: one open at a time, one for a reservation, each event once.
    fn store_payments(&mut self, batch: &Batch) -> Result<(), CommitError> {
        let changes = &batch.changes;
        let (begun, changed): (Vec<_>, Vec<_>) =
            changes.payments.iter().partition(|change| change.from_version == 0);
        for PaymentChange { after, from_version } in changed.into_iter().chain(begun) {
            let before = self.outside.payments.get(&after.id);
            if before.map_or(0, |kept| kept.payment.version) != *from_version {
                return Err(CommitError::Stale);
            }
            let others =
                || self.outside.payments.values().map(|kept| &kept.payment).filter(|p| p.id != after.id);
            let open = |p: &ProviderPayment| p.status.is_open() && p.reservation == after.reservation;
            let twice = after.status.is_open() && others().any(open);
            if twice || after.pays.is_some() && others().any(|p| p.pays == after.pays) {
                return Err(CommitError::Stale);
            }
            let first = (millis(after.created_at) + LOOK_FIRST, 0);
            let (look_at, looks) = before.map_or(first, |kept| (kept.look_at, kept.looks));
            for refund in &after.refunds {
                if refund.returned {
                    self.outside.asked.remove(&refund.id);
                } else {
                    self.outside.asked.entry(refund.id).or_insert((millis(refund.created_at), 0));
                }
            }
            self.outside.payments.insert(after.id, Kept { payment: after.clone(), look_at, looks });
        }
        for (event, _) in &changes.events {
            let first = self.outside.events.insert(event.clone());
            if !first && !flaws::has("payment-events-repeat") {
                return Err(CommitError::Stale);
            }
        }
        Ok(())
    }

    /// What a batch may touch, so that it can be put back.
    fn clone_touched(&self, batch: &Batch) -> Undo {
        let ids = batch.changes.changed.iter().map(|change| change.after.id.0);
        let people = batch.changes.movements.iter().map(|m| m.person.0);
        let keys = batch.keys.iter().map(|key| (key.person.0, key.key.clone()));
        let left = batch.changes.changed.iter().filter_map(|change| change.from_slot).chain([batch.slot]);
        Undo {
            slots: left.map(|slot| (slot, self.slots.get(&slot).copied())).collect(),
            reservations: ids.filter_map(|id| self.reservations.get(&id).cloned()).collect(),
            new: batch
                .changes
                .new
                .iter()
                .map(|r| (r.id.0, self.reservations.get(&r.id.0).cloned()))
                .collect(),
            tickets: batch
                .changes
                .new
                .iter()
                .map(|r| (r.ticket.to_u128(), self.of_ticket.get(&r.ticket.to_u128()).copied()))
                .collect(),
            balances: people.map(|person| (person, self.balances.get(&person).copied())).collect(),
            entries: self.entries.len(),
            waiting: batch
                .changes
                .waitlist
                .keys()
                .map(|person| (batch.slot, *person))
                .map(|key| (key, self.waiting.get(&key).cloned()))
                .collect(),
            rooms: (!batch.payers().is_empty()).then(|| self.rooms.clone()),
            keys: keys.map(|key| (key.clone(), self.keys.get(&key).copied())).collect(),
            outside: (!batch.changes.payments.is_empty() || !batch.changes.events.is_empty())
                .then(|| self.outside.clone()),
        }
    }

    fn put_back(&mut self, batch: &Batch, undo: Undo) {
        fn restore<K: Ord, V>(map: &mut BTreeMap<K, V>, were: Vec<(K, Option<V>)>) {
            for (key, was) in were.into_iter().rev() {
                match was {
                    Some(was) => drop(map.insert(key, was)),
                    None => drop(map.remove(&key)),
                }
            }
        }
        for r in &batch.changes.new {
            self.of_slot.entry(r.slot).or_default().remove(&r.id.0);
            self.reservations.remove(&r.id.0);
        }
        let made_before = undo.new.into_iter().filter_map(|(_, was)| was);
        for was in undo.reservations.into_iter().chain(made_before) {
            self.put(&was);
        }
        restore(&mut self.of_ticket, undo.tickets);
        restore(&mut self.slots, undo.slots);
        restore(&mut self.balances, undo.balances);
        restore(&mut self.keys, undo.keys);
        restore(&mut self.waiting, undo.waiting);
        self.entries.truncate(undo.entries);
        if let Some(outside) = undo.outside {
            self.outside = outside;
        }
        if let Some(rooms) = undo.rooms {
            self.rooms = rooms;
        }
    }

    fn enter(
        &mut self,
        person: PersonId,
        amount: Won,
        kind: EntryKind,
        reservation: Option<ReservationId>,
        key: Option<String>,
        at: Timestamp,
    ) -> Entry {
        let balance = Won(self.balances.get(&person.0).copied().unwrap_or(0));
        let id = i64::try_from(self.entries.len()).unwrap_or(0) + 1;
        let entry = Entry { id, amount, balance, kind, reservation, at };
        self.entries.push((person.0, key, entry.clone()));
        entry
    }

    fn charge(
        &mut self,
        person: PersonId,
        amount: Won,
        key: Option<String>,
        at: Timestamp,
    ) -> Result<Entry, ChargeError> {
        if let Some(key) = &key {
            let before =
                self.entries.iter().find(|(whose, its, _)| *whose == person.0 && its.as_ref() == Some(key));
            if let Some((_, _, before)) = before {
                return if before.amount == amount { Ok(before.clone()) } else { Err(ChargeError::KeyUsed) };
            }
        }
        let balance = self.balances.entry(person.0).or_default();
        if Won(*balance + amount.0) > MAX_BALANCE {
            return Err(ChargeError::TooMuch);
        }
        *balance += amount.0;
        Ok(self.enter(person, amount, EntryKind::Charge, None, key, at))
    }

    /// Who waits for each slot, the first first: who, how many, and how often others were served before them.
    pub fn waits(&self) -> BTreeMap<i64, Vec<(u128, u32, u32)>> {
        let mut slots = BTreeMap::new();
        for slot in self.waiting.keys().map(|(slot, _)| *slot) {
            slots.entry(slot.to_i64()).or_insert_with(|| {
                self.waitlist(slot).iter().map(|w| (w.person.0, w.party, w.passed)).collect()
            });
        }
        slots
    }

    /// Whose slot this is.
    pub fn venue_of(&self, slot: i64) -> Option<u32> {
        let venue = SlotId::from_i64(slot).venue().0;
        self.venues.contains_key(&venue).then_some(venue)
    }

    /// What providers have taken and returned, as it is written down: captured, returned, and what is still due.
    pub fn money_outside(&self) -> BTreeMap<PaymentId, (i64, i64, i64)> {
        let sums = self.outside.payments.values().map(|kept| {
            let payment = &kept.payment;
            (payment.id, (payment.captured.0, payment.returned().0, payment.due().0))
        });
        sums.collect()
    }

    /// Whether anything is held that runs out soon, or has just now.
    pub fn has_holds(&self, wall: i64) -> bool {
        let fresh = |r: &Arc<Reservation>| millis(r.expires_at) > wall - 3_000;
        self.reservations.values().any(|r| r.status() == Status::Temporary && fresh(r))
    }

    /// Whether anything is still to be asked of a provider.
    pub fn owes_outside(&self) -> bool {
        !self.outside.asked.is_empty() || self.outside.payments.values().any(|k| k.payment.status.is_open())
    }

    /// Whether a person's request with this key was decided.
    pub fn has_key(&self, key: &KeyName) -> bool {
        self.keys.contains_key(key)
    }

    /// Whether a person's charge with this key is stored.
    pub fn has_charge(&self, person: PersonId, key: &str) -> bool {
        self.entries.iter().any(|(whose, its, _)| *whose == person.0 && its.as_deref() == Some(key))
    }
}

/// A person, and the key as it was sent.
type KeyName = (u128, String);

struct Undo {
    slots: Vec<(SlotId, Option<u64>)>,
    reservations: Vec<Arc<Reservation>>,
    new: Vec<(u128, Option<Arc<Reservation>>)>,
    tickets: Vec<(u128, Option<u128>)>,
    balances: Vec<(u128, Option<i64>)>,
    entries: usize,
    waiting: Vec<((SlotId, PersonId), Option<Waiting>)>,
    rooms: Option<Rooms>,
    keys: Vec<(KeyName, Option<(RequestKey, i64)>)>,
    outside: Option<Outside>,
}

/// One process's connections to the database.
pub struct Truth {
    hub: Shared,
    process: usize,
}

fn unavailable() -> Error {
    Error::Unavailable(Arc::new(std::io::Error::other("no answer")))
}

fn page<T>(items: Vec<T>) -> Page<T> {
    Page { items, next: None }
}

impl Truth {
    /// The connections of a process.
    pub fn new(hub: &Shared, process: usize) -> Self {
        Self { hub: hub.clone(), process }
    }

    fn ask<T, E>(
        &self,
        mut doing: impl FnMut(&mut Hub) -> Result<T, E> + Send + 'static,
    ) -> Answer<'_, Result<T, E>>
    where
        T: Send + 'static,
        E: From<Error> + Send + 'static,
    {
        let answer = call(&self.hub, self.process, To::Rows, TIMEOUT, move |hub| {
            if hub.goes_wrong(hub.faults.store_failed) {
                return Some(Err(unavailable().into()));
            }
            Some(doing(hub))
        });
        Box::pin(async move { answer.await.unwrap_or_else(|| Err(unavailable().into())) })
    }
}

impl Backend for Truth {
    fn commit(&self, batch: Batch) -> Answer<'_, Result<u64, CommitError>> {
        let process = self.process;
        self.ask(move |hub| {
            let stored = hub.rows.commit(&batch);
            let slot = Some(batch.slot.to_i64());
            match stored {
                Ok((version, committed)) => {
                    let what: Vec<_> = committed.lines.iter().map(ToString::to_string).collect();
                    hub.note(slot, format!("p{process} stores version {version}: {}", what.join("; ")));
                    let (now, wall) = (hub.now, hub.wall());
                    hub.auditor.committed(now, wall, committed);
                    let mut people: Vec<_> = batch.changes.movements.iter().map(|m| m.person.0).collect();
                    people.extend(batch.changes.payments.iter().map(|change| change.after.person.0));
                    people.sort_unstable();
                    people.dedup();
                    let options = hub.auditor.options();
                    let findings = hub.rows.audit_part(batch.slot, &people, options);
                    findings.iter().for_each(|finding| hub.auditor.found(slot, finding));
                    Ok(version)
                }
                Err(error) => {
                    hub.note(slot, format!("p{process} does not store {}: {error}", batch.decisions.len()));
                    Err(error)
                }
            }
        })
    }

    fn slot(&self, id: SlotId) -> Answer<'_, Result<Slot, Error>> {
        self.ask(move |hub| Ok(hub.rows.slot(id)))
    }

    fn reservations(&self, ids: Vec<ReservationId>) -> Answer<'_, Result<Vec<Reservation>, Error>> {
        self.ask(move |hub| {
            let found = ids.iter().filter_map(|id| hub.rows.reservations.get(&id.0));
            Ok(found.map(|r| Reservation::clone(r)).collect())
        })
    }

    fn reservations_of(
        &self,
        person: PersonId,
        _: Option<ReservationId>,
        _: u32,
    ) -> Answer<'_, Result<Page<Reservation>, Error>> {
        self.ask(move |hub| {
            let own = hub.rows.reservations.values().filter(|r| r.person == person);
            Ok(page(own.map(|r| Reservation::clone(r)).collect()))
        })
    }

    fn reservations_on(&self, venue: VenueId, date: Date) -> Answer<'_, Result<Vec<Reservation>, Error>> {
        self.ask(move |hub| {
            let there = hub.rows.reservations.values();
            let there = there.filter(|r| r.slot.venue() == venue && r.slot.date() == date);
            Ok(there.map(|r| Reservation::clone(r)).collect())
        })
    }

    fn occupancy(&self, _: SlotId, _: SlotId, _: Timestamp) -> Answer<'_, Result<Vec<Occupancy>, Error>> {
        self.ask(|_| Ok(Vec::new()))
    }

    fn overdue(&self, now: Timestamp, limit: u32) -> Answer<'_, Result<Vec<Overdue>, Error>> {
        self.ask(move |hub| {
            let holds = hub.rows.reservations.values().filter(|r| r.has_expired(now));
            let mut holds: Vec<_> = holds.collect();
            holds.sort_by_key(|r| r.expires_at);
            holds.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
            let hold = |r: &Arc<Reservation>| Overdue { slot: r.slot, reservation: r.id, person: r.person };
            Ok(holds.into_iter().map(hold).collect())
        })
    }

    fn next_deadline(&self) -> Answer<'_, Result<Option<Timestamp>, Error>> {
        self.ask(|hub| {
            let holds = hub.rows.reservations.values().filter(|r| r.status() == Status::Temporary);
            Ok(holds.map(|r| r.expires_at).min())
        })
    }

    fn waitlist(&self, slot: SlotId) -> Answer<'_, Result<Vec<Waiting>, Error>> {
        self.ask(move |hub| Ok(hub.rows.waitlist(slot)))
    }

    fn waits_of(&self, person: PersonId) -> Answer<'_, Result<Vec<(SlotId, Waiting)>, Error>> {
        self.ask(move |hub| {
            let own = hub.rows.waiting.iter().filter(|((_, whose), _)| *whose == person);
            Ok(own.map(|((slot, _), waiting)| (*slot, waiting.clone())).collect())
        })
    }

    fn waited_for(&self, from: SlotId, limit: u32) -> Answer<'_, Result<Vec<SlotId>, Error>> {
        self.ask(move |hub| {
            let slots: BTreeSet<_> = hub.rows.waiting.keys().map(|(slot, _)| *slot).collect();
            let slots = slots.into_iter().filter(|slot| *slot >= from);
            Ok(slots.take(usize::try_from(limit).unwrap_or(usize::MAX)).collect())
        })
    }

    fn decided(&self, ticket: TicketId) -> Answer<'_, Result<Option<Logged>, Error>> {
        self.ask(move |hub| Ok(hub.rows.log.get(&ticket).cloned()))
    }

    fn decided_among(&self, tickets: Vec<TicketId>) -> Answer<'_, Result<Vec<Logged>, Error>> {
        self.ask(move |hub| {
            Ok(tickets.iter().filter_map(|ticket| hub.rows.log.get(ticket)).cloned().collect())
        })
    }

    fn request_key(&self, person: PersonId, key: String) -> Answer<'_, Result<Option<RequestKey>, Error>> {
        self.ask(move |hub| Ok(hub.rows.keys.get(&(person.0, key.clone())).map(|(request, _)| *request)))
    }

    fn forget_keys(&self, before: Timestamp, _: u32) -> Answer<'_, Result<usize, Error>> {
        self.ask(move |hub| {
            hub.rows.keys.retain(|_, (_, at)| *at >= millis(before));
            Ok(0)
        })
    }

    fn balance(&self, person: PersonId) -> Answer<'_, Result<Won, Error>> {
        self.ask(move |hub| Ok(Won(hub.rows.balances.get(&person.0).copied().unwrap_or(0))))
    }

    fn charge_all(&self, charges: Vec<Charge>) -> Answer<'_, Result<Vec<Result<Entry, ChargeError>>, Error>> {
        self.ask(move |hub| {
            let charge = |Charge { person, amount, key, at }: &Charge| {
                hub.rows.charge(*person, *amount, key.clone(), *at)
            };
            Ok(charges.iter().map(charge).collect())
        })
    }

    fn opening(&self, venue: VenueId) -> Answer<'_, Result<Option<Opening>, Error>> {
        self.ask(move |hub| Ok(hub.rows.rooms.newest(venue).cloned()))
    }

    fn add_opening(&self, venue: VenueId, new: NewOpening) -> Answer<'_, Result<Opening, Error>> {
        self.ask(move |hub| Ok(hub.rows.rooms.add(venue, new.clone())))
    }

    fn set_room(
        &self,
        venue: VenueId,
        terms: Terms,
        otherwise: NewOpening,
    ) -> Answer<'_, Result<Opening, Error>> {
        self.ask(move |hub| Ok(hub.rows.rooms.set_terms(venue, terms, otherwise.clone())))
    }

    fn room(&self, venue: VenueId, people: Vec<PersonId>) -> Answer<'_, Result<Option<Room>, Error>> {
        self.ask(move |hub| Ok(hub.rows.rooms.room(venue, &people)))
    }

    fn commit_room(&self, batch: RoomBatch) -> Answer<'_, Result<(), CommitError>> {
        let process = self.process;
        self.ask(move |hub| {
            let stored = hub.rows.rooms.commit(&batch);
            let changes = &batch.changes;
            let told = match &stored {
                Ok(()) => "stores",
                Err(_) => "does not store",
            };
            let (new, let_in, ended) = (changes.new.len(), changes.let_in.len(), changes.ended.len());
            hub.note(None, format!("p{process} {told} {new} new, {let_in} let in, {ended} ended in a room"));
            stored.map(|()| hub.audit_rooms())
        })
    }

    fn open_room(
        &self,
        opening: OpeningId,
        version: u64,
        _: Timestamp,
        limit: u32,
    ) -> Answer<'_, Result<bool, CommitError>> {
        self.ask(move |hub| {
            let opened = hub.rows.rooms.open(opening, version, limit);
            hub.note(None, format!("a room opens: {opened:?}"));
            hub.audit_rooms();
            opened
        })
    }

    fn left_waiting(&self, opening: OpeningId) -> Answer<'_, Result<Vec<u64>, Error>> {
        self.ask(move |hub| Ok(hub.rows.rooms.left(opening)))
    }

    fn token(&self, opening: OpeningId, person: PersonId) -> Answer<'_, Result<Option<Token>, Error>> {
        self.ask(move |hub| Ok(hub.rows.rooms.latest(opening, person)))
    }

    fn seen(&self, token: Token, at: Timestamp) -> Answer<'_, Result<bool, Error>> {
        self.ask(move |hub| Ok(hub.rows.rooms.seen(&token, at)))
    }

    fn due_rooms(&self, now: Timestamp, _: u32) -> Answer<'_, Result<Vec<VenueId>, Error>> {
        self.ask(move |hub| Ok(hub.rows.rooms.due(now)))
    }

    fn drawn(
        &self,
        opening: OpeningId,
        after: u64,
        limit: u32,
    ) -> Answer<'_, Result<Vec<(u64, PersonId)>, Error>> {
        self.ask(move |hub| Ok(hub.rows.rooms.drawn(opening, after, limit)))
    }

    fn wallet_entries(
        &self,
        person: PersonId,
        _: Option<i64>,
        _: u32,
    ) -> Answer<'_, Result<Page<Entry>, Error>> {
        self.ask(move |hub| {
            let own = hub.rows.entries.iter().filter(|(whose, ..)| *whose == person.0);
            Ok(page(own.map(|(_, _, entry)| entry.clone()).collect()))
        })
    }

    fn payments_about(
        &self,
        reservations: Vec<ReservationId>,
    ) -> Answer<'_, Result<Vec<ProviderPayment>, Error>> {
        self.ask(move |hub| {
            let all = hub.rows.outside.payments.values().map(|kept| &kept.payment);
            let about = |p: &&ProviderPayment| {
                reservations.contains(&p.reservation) || p.pays.is_some_and(|id| reservations.contains(&id))
            };
            Ok(all.filter(about).cloned().collect())
        })
    }

    fn payment(&self, id: PaymentId) -> Answer<'_, Result<Option<ProviderPayment>, Error>> {
        self.ask(move |hub| Ok(hub.rows.outside.payments.get(&id).map(|kept| kept.payment.clone())))
    }

    fn events_heard(&self, events: Vec<EventId>) -> Answer<'_, Result<Vec<EventId>, Error>> {
        self.ask(move |hub| {
            Ok(events.iter().filter(|event| hub.rows.outside.events.contains(event)).cloned().collect())
        })
    }

    fn request_payment(
        &self,
        id: PaymentId,
        reference: String,
        checkout_url: String,
        at: Timestamp,
    ) -> Answer<'_, Result<bool, Error>> {
        self.ask(move |hub| {
            let kept = hub.rows.outside.payments.get_mut(&id);
            let Some(kept) = kept.filter(|kept| kept.payment.status == PaymentStatus::Ready) else {
                return Ok(false);
            };
            let payment = &mut kept.payment;
            payment.status = PaymentStatus::Requested;
            payment.version += 1;
            (payment.reference, payment.checkout_url) =
                (Some(reference.as_str().into()), Some(checkout_url.as_str().into()));
            payment.requested_at = Some(at);
            (kept.look_at, kept.looks) = (millis(kept.payment.deadline.max(at)), 0);
            Ok(true)
        })
    }

    fn payments_to_look_at(&self, now: Timestamp, limit: u32) -> Answer<'_, Result<Vec<ToLookAt>, Error>> {
        self.ask(move |hub| {
            let limit = usize::try_from(limit).unwrap_or(usize::MAX);
            let due = |kept: &&mut Kept| kept.payment.status.is_open() && kept.look_at <= millis(now);
            let found = hub.rows.outside.payments.values_mut().filter(due).take(limit).map(|kept| {
                (kept.look_at, kept.looks) = (millis(now) + LOOK_AGAIN, kept.looks + 1);
                ToLookAt { payment: kept.payment.clone(), looks: kept.looks }
            });
            Ok(found.collect())
        })
    }

    fn refunds_to_ask_for(&self, now: Timestamp, limit: u32) -> Answer<'_, Result<Vec<DueRefund>, Error>> {
        self.ask(move |hub| {
            let limit = usize::try_from(limit).unwrap_or(usize::MAX);
            let Outside { payments, asked, .. } = &mut hub.rows.outside;
            let due = asked.iter_mut().filter(|(_, (at, _))| *at <= millis(now)).take(limit);
            let found = due.filter_map(|(id, (at, asked))| {
                (*at, *asked) = (millis(now) + LOOK_AGAIN, *asked + 1);
                let kept = payments.values().find(|kept| kept.payment.refunds.iter().any(|r| r.id == *id))?;
                let refund = kept.payment.refunds.iter().find(|refund| refund.id == *id)?;
                Some(DueRefund {
                    id: *id,
                    amount: refund.amount,
                    asked: *asked,
                    payment: kept.payment.clone(),
                })
            });
            Ok(found.collect())
        })
    }

    fn ask_again(&self, id: RefundId, at: Timestamp) -> Answer<'_, Result<(), Error>> {
        self.ask(move |hub| {
            hub.rows.outside.asked.entry(id).and_modify(|(next, _)| *next = millis(at));
            Ok(())
        })
    }

    fn refunds_due(&self) -> Answer<'_, Result<(u64, Won), Error>> {
        self.ask(|hub| {
            let due = hub.rows.outside.payments.values().map(|kept| kept.payment.due()).sum();
            Ok((u64::try_from(hub.rows.outside.asked.len()).unwrap_or(u64::MAX), due))
        })
    }

    fn venues(&self) -> Answer<'_, Result<Vec<Venue>, Error>> {
        self.ask(|hub| Ok(hub.rows.venues.values().cloned().collect()))
    }

    fn venue(&self, id: VenueId) -> Answer<'_, Result<Option<Venue>, Error>> {
        self.ask(move |hub| Ok(hub.rows.venue(id)))
    }

    fn add_venue(&self, _: Settings, _: Vec<MenuItem>, _: Vec<PersonId>) -> Answer<'_, Result<Venue, Error>> {
        self.ask(|_| Err(unavailable()))
    }

    fn set_settings(&self, id: VenueId, version: u64, settings: Settings) -> Answer<'_, Result<bool, Error>> {
        self.ask(move |hub| Ok(hub.rows.set_settings(id, version, settings.clone())))
    }

    fn set_menu(&self, _: VenueId, _: Vec<MenuItem>) -> Answer<'_, Result<(), Error>> {
        self.ask(|_| Ok(()))
    }

    fn add_account(&self, _: Account, _: Timestamp) -> Answer<'_, Result<(), AccountError>> {
        self.ask(|_| Ok(()))
    }

    fn account_by_email(&self, _: String) -> Answer<'_, Result<Option<Account>, Error>> {
        self.ask(|_| Ok(None))
    }

    fn ping(&self) -> Answer<'_, Result<(), Error>> {
        self.ask(|_| Ok(()))
    }

    fn clock(&self) -> Answer<'_, Result<Timestamp, Error>> {
        self.ask(|hub| Ok(Timestamp::from_millisecond(hub.wall()).unwrap_or_default()))
    }

    fn next_epoch(&self) -> Answer<'_, Result<u32, Error>> {
        self.ask(|hub| {
            hub.rows.epoch += 1;
            Ok(hub.rows.epoch)
        })
    }

    fn close(&self) {}
}
