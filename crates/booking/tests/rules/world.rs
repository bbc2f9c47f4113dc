//! A slot with a clock: what the tests need to tell a story in a few lines.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use booking::decide::{Booking, Known};
use booking::hall::{Row, Section};
use booking::policy::{CancelledBy, Policy};
use booking::venue::{Kind, Settings, WeekTimes, Zone};
use booking::*;
use jiff::civil::{date, time};
use jiff::{SignedDuration, Timestamp};

pub struct World {
    pub venue: Venue,
    pub slot: Slot,
    /// Every reservation that was ever stored, as the database would have it.
    pub stored: HashMap<ReservationId, Arc<Reservation>>,
    pub foregone: HashMap<TicketId, Refusal>,
    /// Every payment with a provider that was ever stored.
    pub payments: BTreeMap<PaymentId, ProviderPayment>,
    pub events: HashSet<EventId>,
    pub now: Timestamp,
    next_number: u64,
}

pub fn places(capacity: u32) -> Inventory {
    Inventory::Places { capacity }
}

pub fn tables(seats: &[u32]) -> Inventory {
    let tables = seats.iter().zip(1..).map(|(&seats, number)| Table { number, seats }).collect();
    Inventory::Tables { tables }
}

/// A section with rows of so many seats.
pub fn hall(rows: &[u32]) -> Inventory {
    let row = |(&seats, n): (&u32, u32)| Row { name: n.to_string(), seats };
    let rows = rows.iter().zip(1..).map(row).collect();
    Inventory::Seats { sections: Hall::from(vec![Section { name: "A".into(), price: Won(30_000), rows }]) }
}

pub fn person(n: u32) -> PersonId {
    PersonId(u128::from(n))
}

impl World {
    pub fn new(inventory: Inventory) -> Self {
        let settings = Settings {
            name: "Here".into(),
            kind: Kind::Restaurant,
            inventory,
            time_zone: Zone::named("Asia/Seoul").unwrap(),
            times: WeekTimes::daily(11, 20),
            shows: vec![],
            book_ahead_days: 60,
            requests_per_second: None,
            policy: Policy::default(),
        };
        let venue = Venue { id: VenueId(1), version: 1, settings, menu: vec![], staff: vec![] };
        let slot = Slot::empty(slot_at(12));
        // A day and more before the slot: everything is refunded.
        let now = "2026-11-20T01:00:00Z".parse().unwrap();
        Self {
            venue,
            slot,
            stored: HashMap::new(),
            foregone: HashMap::new(),
            payments: BTreeMap::new(),
            events: HashSet::new(),
            now,
            next_number: 0,
        }
    }

    pub fn wait(&mut self, seconds: i64) {
        self.now += SignedDuration::from_secs(seconds);
    }

    pub fn command(&mut self, who: u32, action: Action) -> Command {
        self.next_number += 1;
        let ticket = TicketId::new(self.slot.id, 1, self.next_number);
        Command { ticket, entered_at: self.now, person: person(who), action }
    }

    pub fn book(&mut self, who: u32, party: u32) -> Command {
        self.book_seats(who, party, &[])
    }

    pub fn book_seats(&mut self, who: u32, party: u32, seats: &[&str]) -> Command {
        let id = ReservationId(u128::from(self.next_number) + 1_000);
        let booking = Booking {
            id,
            name: "guest".into(),
            party,
            seats: seats.iter().map(|label| Seat::labelled(label)).collect(),
            section: None,
            payment: Payment::Deposit,
            order: Arc::from([]),
            note: None,
        };
        self.command(who, Action::Book(Box::new(booking)))
    }

    /// Joins the waitlist.
    pub fn join(&mut self, who: u32, party: u32) -> Command {
        let offer = ReservationId(u128::from(self.next_number) + 5_000_000);
        self.command(who, Action::Join { name: "guest".into(), party, offer })
    }

    pub fn pay(&mut self, who: u32, reservation: ReservationId) -> Command {
        self.command(who, Action::Pay { reservation })
    }

    /// Pays what has run out.
    pub fn reseat(&mut self, who: u32, reservation: ReservationId) -> Command {
        let afresh = ReservationId(u128::from(self.next_number) + 9_000_000);
        self.command(who, Action::Reseat { reservation, afresh })
    }

    pub fn cancel(&mut self, who: u32, reservation: ReservationId) -> Command {
        self.command(who, Action::Cancel { reservation, by: CancelledBy::Guest })
    }

    pub fn decide(&mut self, commands: &[Command]) -> Decided {
        let known = Known {
            reservations: self.stored.clone(),
            foregone: self.foregone.clone(),
            payments: self.payments.values().cloned().collect(),
            events: self.events.clone(),
        };
        let when = When { drawn: self.now, decided: self.now };
        decide(&mut self.slot, &self.venue, &known, commands.iter(), when)
    }

    /// Decides a batch and stores it, checking what the database would refuse.
    pub fn run(&mut self, commands: &[Command]) -> Vec<Outcome> {
        self.run_counting(commands).0
    }

    /// The same, with the sum of what went into wallets.
    pub fn run_counting(&mut self, commands: &[Command]) -> (Vec<Outcome>, Won) {
        let decided = self.decide(commands);
        for change in &decided.changes.changed {
            let row = &self.stored[&change.after.id];
            assert_eq!(
                row.version, change.from_version,
                "a change is conditional on the version it was decided from"
            );
            assert_eq!(change.from_slot.unwrap_or(row.slot), row.slot);
            self.stored.insert(change.after.id, change.after.clone());
        }
        for reservation in &decided.changes.new {
            assert!(self.stored.insert(reservation.id, reservation.clone()).is_none(), "an id is used once");
        }
        for PaymentChange { after, from_version } in decided.changes.payments {
            let version = self.payments.get(&after.id).map_or(0, |payment| payment.version);
            assert_eq!(version, from_version, "a payment is conditional on the version it was decided from");
            self.payments.insert(after.id, after);
        }
        for (event, _) in decided.changes.events {
            // The flaw that events are heard twice is one of the tests.
            self.events.insert(event);
        }
        self.slot.version += 1;
        (decided.outcomes, decided.changes.movements.iter().map(|m| m.amount).sum())
    }

    /// Books and expects it to work.
    pub fn seat(&mut self, who: u32, party: u32) -> Arc<Reservation> {
        let command = self.book(who, party);
        done(&self.run(&[command])[0])
    }

    pub fn row(&self, id: ReservationId) -> &Reservation {
        &self.stored[&id]
    }

    /// The stored reservations that hold places here at this instant, by the rows alone.
    pub fn holding(&self) -> Vec<&Reservation> {
        self.stored
            .values()
            .map(Arc::as_ref)
            .filter(|r| r.slot == self.slot.id && r.status().holds_places() && !r.has_expired(self.now))
            .collect()
    }
}

pub fn slot_at(hour: i8) -> SlotId {
    SlotId::new(VenueId(1), date(2026, 12, 1), time(hour, 0, 0, 0)).unwrap()
}

pub fn done(outcome: &Outcome) -> Arc<Reservation> {
    match outcome {
        Outcome::Done(reservation) => reservation.clone(),
        Outcome::Noted => panic!("noted"),
        Outcome::Refused(refusal) => panic!("refused: {refusal:?}"),
    }
}

pub fn refusal(outcome: &Outcome) -> Refusal {
    match outcome {
        Outcome::Done(reservation) => panic!("done: {reservation:?}"),
        Outcome::Noted => panic!("noted"),
        Outcome::Refused(refusal) => *refusal,
    }
}
