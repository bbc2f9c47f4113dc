//! A venue with a store and a clock: what the tests need to tell a story in a few lines.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use booking::decide::{Booking, Known};
use booking::hall::{Row, Section};
use booking::policy::{CancelledBy, Policy};
use booking::venue::{Kind, Settings, WeekTimes, Zone};
use booking::*;
use jiff::civil::{date, time};
use jiff::{SignedDuration, Timestamp, ToSpan};
use store::{Batch, RequestKey, Store, StoredKey};

use super::super::database::Database;

pub struct World {
    pub database: Database,
    pub store: Arc<Store>,
    pub venue: Venue,
    pub now: Timestamp,
    next: AtomicU64,
}

pub fn places(capacity: u32) -> Inventory {
    Inventory::Places { capacity }
}

/// Tables 1, 2, … of four seats.
pub fn tables(count: u32) -> Inventory {
    Inventory::Tables { tables: (1..=count).map(|number| Table { number, seats: 4 }).collect() }
}

/// One row of so many seats, called A-1-1, A-1-2, …
pub fn row_of(seats: u32) -> Inventory {
    let rows = vec![Row { name: "1".into(), seats }];
    Inventory::Seats { sections: Hall::from(vec![Section { name: "A".into(), price: Won(30_000), rows }]) }
}

pub fn person(n: u32) -> PersonId {
    PersonId(u128::from(n))
}

pub fn settings(inventory: Inventory) -> Settings {
    Settings {
        name: "Here".into(),
        kind: Kind::Restaurant,
        inventory,
        time_zone: Zone::named("Asia/Seoul").unwrap(),
        times: WeekTimes::daily(0, 23),
        book_ahead_days: 60,
        shows: vec![],
        requests_per_second: None,
        policy: Policy::default(),
    }
}

impl World {
    pub async fn new(inventory: Inventory) -> Self {
        Self::on(Database::new(), inventory).await
    }

    pub async fn on(database: Database, inventory: Inventory) -> Self {
        let store = database.open().await;
        let venue = store.add_venue(settings(inventory), vec![], vec![]).await.unwrap();
        // A day and more before every slot: everything is refunded.
        let now = "2026-11-20T01:00:00Z".parse().unwrap();
        Self { database, store, venue, now, next: AtomicU64::new(0) }
    }

    pub fn wait(&mut self, seconds: i64) {
        self.now += SignedDuration::from_secs(seconds);
    }

    /// The hourly slots of the venue, counted from midnight on 1 December.
    pub fn slot(&self, n: i16) -> SlotId {
        let day = date(2026, 12, 1) + i64::from(n / 24).days();
        SlotId::new(self.venue.id, day, time((n % 24).try_into().unwrap(), 0, 0, 0)).unwrap()
    }

    /// A number that nothing else has: tickets and ids are made of it.
    pub fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub fn id(&self) -> ReservationId {
        ReservationId(1_000 + u128::from(self.number()))
    }

    pub fn command(&self, slot: SlotId, who: u32, action: Action) -> Command {
        let ticket = TicketId::new(slot, 1, self.number());
        Command { ticket, entered_at: self.now, person: person(who), action }
    }

    pub fn book(&self, slot: SlotId, who: u32, party: u32) -> Command {
        self.book_seats(slot, who, party, &[])
    }

    /// These seats, or the best for the party.
    pub fn book_seats(&self, slot: SlotId, who: u32, party: u32, seats: &[&str]) -> Command {
        let booking = Booking {
            id: self.id(),
            name: "guest".into(),
            party,
            seats: seats.iter().map(|label| Seat::labelled(label)).collect(),
            section: None,
            payment: Payment::Deposit,
            order: Arc::from([]),
            note: None,
        };
        self.command(slot, who, Action::Book(Box::new(booking)))
    }

    /// Joins the waitlist.
    pub fn join(&self, slot: SlotId, who: u32, party: u32) -> Command {
        let (name, offer) = ("guest".into(), self.id());
        self.command(slot, who, Action::Join { name, party, offer })
    }

    pub fn pay(&self, reservation: &Reservation) -> Command {
        let action = Action::Pay { reservation: reservation.id };
        self.command(reservation.slot, as_number(reservation.person), action)
    }

    pub fn cancel(&self, reservation: &Reservation) -> Command {
        let action = Action::Cancel { reservation: reservation.id, by: CancelledBy::Guest };
        self.command(reservation.slot, as_number(reservation.person), action)
    }

    /// The wish to come to `slot` instead, or with another party.
    pub fn change(&self, reservation: &Reservation, slot: SlotId, party: u32) -> Command {
        let id = reservation.id;
        let action = match slot == reservation.slot {
            true => Action::Change { reservation: id, party },
            false => Action::Move { reservation: id, party },
        };
        self.command(slot, as_number(reservation.person), action)
    }

    pub async fn load(&self, slot: SlotId) -> Slot {
        self.store.slot(slot).await.unwrap()
    }

    pub async fn row(&self, id: ReservationId) -> Option<Reservation> {
        self.store.reservation(id).await.unwrap()
    }

    /// Decides commands from a copy of the slot, as whoever runs the lane does.
    pub async fn decide(&self, slot: &Slot, commands: &[Command]) -> (Batch, Vec<Outcome>) {
        let mentioned: Vec<_> = commands.iter().filter_map(|command| command.action.reservation()).collect();
        let (payments, known) = match mentioned[..] {
            [] => Default::default(),
            _ => (
                self.store.payments_about(mentioned.clone()).await.unwrap().into_iter().collect(),
                self.store.reservations(mentioned).await.unwrap(),
            ),
        };
        let reservations = known.into_iter().map(|r| (r.id, Arc::new(r))).collect();
        let known = Known { reservations, payments, ..Known::default() };
        let when = When { drawn: self.now, decided: self.now };
        let decided = decide(&mut slot.clone(), &self.venue, &known, commands.iter(), when);
        let mut batch = self.empty_batch(slot);
        batch.changes = decided.changes;
        batch.decisions = decided.decisions;
        (batch, decided.outcomes)
    }

    /// Decides a batch from what is stored, and stores it.
    pub async fn run(&self, commands: &[Command]) -> Vec<Outcome> {
        let slot = self.load(commands[0].ticket.slot).await;
        let (batch, outcomes) = self.decide(&slot, commands).await;
        assert_eq!(self.store.commit(batch).await.unwrap(), slot.version + 1, "a batch is one version");
        outcomes
    }

    /// Books and expects it to work.
    pub async fn seat(&self, slot: SlotId, who: u32, party: u32) -> Arc<Reservation> {
        done(&self.run(&[self.book(slot, who, party)]).await[0])
    }

    /// A batch by hand, for what `decide` would never ask for.
    pub fn empty_batch(&self, slot: &Slot) -> Batch {
        Batch {
            slot: slot.id,
            slot_version: slot.version,
            venue_version: self.venue.version,
            decided_at: self.now,
            changes: Changes::default(),
            decisions: vec![],
            keys: vec![],
        }
    }

    /// A hold by hand.
    pub fn hold(&self, slot: SlotId, who: u32, table: Option<u32>) -> Reservation {
        Reservation {
            id: self.id(),
            slot,
            person: person(who),
            name: "guest".into(),
            life: Life::NEW,
            party: 2,
            table,
            payment: Payment::Deposit,
            order: Arc::from([]),
            price: Won(10_000),
            paid: Won::ZERO,
            refunded: Won::ZERO,
            refund_due: Won::ZERO,
            expires_at: self.now + SignedDuration::from_mins(7),
            note: None,
            ticket: TicketId::new(slot, 1, self.number()),
            created_at: self.now,
            version: 1,
            reseats: None,
            seats: Arc::default(),
            offered: false,
        }
    }

    pub fn key(&self, who: u32, key: &str, ticket: TicketId) -> StoredKey {
        let request = RequestKey { body: [7; 32], ticket };
        StoredKey { person: person(who), key: key.into(), request }
    }

    pub async fn give(&self, who: u32, amount: i64) {
        self.store.charge(person(who), Won(amount), None, self.now).await.unwrap();
    }

    pub async fn balance(&self, who: u32) -> Won {
        self.store.balance(person(who)).await.unwrap()
    }

    pub async fn entries(&self, who: u32) -> Vec<store::Entry> {
        self.store.wallet_entries(person(who), None, 1_000).await.unwrap().items
    }
}

fn as_number(person: PersonId) -> u32 {
    u32::try_from(person.0).unwrap()
}

pub fn done(outcome: &Outcome) -> Arc<Reservation> {
    match outcome {
        Outcome::Done(reservation) => reservation.clone(),
        Outcome::Noted => panic!("noted"),
        Outcome::Refused(refusal) => panic!("refused: {refusal:?}"),
    }
}

/// The reservation one version on, changed by hand.
pub fn changed(before: &Reservation, change: impl FnOnce(&mut Reservation)) -> Change {
    let mut after = Reservation { version: before.version + 1, ..before.clone() };
    change(&mut after);
    let from_slot = (before.slot != after.slot).then_some(before.slot);
    let frees = !after.status().holds_places()
        || before.table != after.table
        || before.seats != after.seats
        || from_slot.is_some();
    Change { from_version: before.version, from_slot, frees, ticket: None, after: Arc::new(after) }
}
