//! The state of one slot: who holds what in it.
//!
//! There is no counter beside it that could drift: what is left is always derived from the reservations that hold
//! places. Every question is answered in O(log n), so that a slot with a hundred thousand places decides as fast as one
//! with twenty.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use jiff::Timestamp;

use crate::hall::{Hall, Seat};
use crate::ids::{PersonId, ReservationId, SlotId};
use crate::reservation::{Reservation, Status};
use crate::venue::{Inventory, Table};
use crate::waitlist::Waitlist;

/// One slot and the reservations that hold places in it.
#[derive(Debug, Clone)]
pub struct Slot {
    /// Which slot.
    pub id: SlotId,
    /// The version of the stored row from which this state was read; 0 while nobody has booked yet.
    pub version: u64,
    holders: HashMap<ReservationId, Arc<Reservation>>,
    by_person: HashMap<PersonId, ReservationId>,
    by_table: BTreeMap<u32, ReservationId>,
    by_seat: HashMap<Seat, ReservationId>,
    by_deadline: BTreeSet<(Timestamp, ReservationId)>,
    people: u32,
    waitlist: Waitlist,
}

/// What a party would like.
#[derive(Debug, Clone, Copy)]
pub enum Wanted<'a> {
    /// Whatever is best.
    Any,
    /// The best of a section.
    In(&'a str),
    /// Exactly these seats.
    Seats(&'a [Seat]),
}

/// Where a party sits: at a table, in these seats, or simply somewhere.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Spot {
    /// The table, where there are tables.
    pub table: Option<u32>,
    /// The seats, where they are numbered.
    pub seats: Arc<[Seat]>,
}

/// There is no room for a party; so much is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoRoom {
    /// Fewer people, reservations or seats than wanted.
    Places(u32),
    /// So many tables, none of which fits.
    Tables(u32),
    /// Some of the seats are taken, and so many are left; or so many are together at most.
    Seats(u32),
}

impl Slot {
    /// A slot that nobody has booked.
    pub fn empty(id: SlotId) -> Self {
        Self::restore(id, 0, [])
    }

    /// A slot as the database knows it: its version, and the reservations that hold places.
    pub fn restore(id: SlotId, version: u64, holders: impl IntoIterator<Item = Reservation>) -> Self {
        let mut slot = Self {
            id,
            version,
            holders: HashMap::new(),
            by_person: HashMap::new(),
            by_table: BTreeMap::new(),
            by_seat: HashMap::new(),
            by_deadline: BTreeSet::new(),
            people: 0,
            waitlist: Waitlist::default(),
        };
        for reservation in holders {
            slot.put(Arc::new(reservation));
        }
        slot
    }

    /// The same slot with those who wait for a place in it.
    pub fn with_waitlist(mut self, waitlist: Waitlist) -> Self {
        self.waitlist = waitlist;
        self
    }

    /// Who waits for a place.
    pub fn waitlist(&self) -> &Waitlist {
        &self.waitlist
    }

    pub(crate) fn waitlist_mut(&mut self) -> &mut Waitlist {
        &mut self.waitlist
    }

    /// The reservation, if it holds places here.
    pub fn holder(&self, id: ReservationId) -> Option<&Arc<Reservation>> {
        self.holders.get(&id)
    }

    /// The place-holding reservation of this person.
    pub fn of_person(&self, person: PersonId) -> Option<ReservationId> {
        self.by_person.get(&person).copied()
    }

    /// All reservations that hold places, in no particular order.
    pub fn holders(&self) -> impl Iterator<Item = &Arc<Reservation>> {
        self.holders.values()
    }

    /// How many people hold places.
    pub fn people(&self) -> u32 {
        self.people
    }

    /// Who has this seat.
    pub fn of_seat(&self, seat: &Seat) -> Option<&Arc<Reservation>> {
        self.holders.get(self.by_seat.get(seat)?)
    }

    /// What is left for somebody who is not on the waitlist.
    pub fn open(&self, inventory: &Inventory) -> u32 {
        if self.waitlist.keeps_what_is_left() { 0 } else { self.remaining(inventory) }
    }

    /// What is left to book.
    pub fn remaining(&self, inventory: &Inventory) -> u32 {
        match inventory {
            Inventory::Places { capacity } => capacity.saturating_sub(self.people),
            Inventory::Exclusive => u32::from(self.holders.is_empty()),
            Inventory::Tables { tables } => {
                let free = tables.iter().filter(|table| !self.by_table.contains_key(&table.number)).count();
                u32::try_from(free).unwrap_or(u32::MAX)
            }
            Inventory::Seats { sections } => self.seats_left(sections),
        }
    }

    /// Where a party can sit. `instead_of` gives up its own place for it.
    pub fn room_for(
        &self,
        inventory: &Inventory,
        party: u32,
        wanted: Wanted<'_>,
        instead_of: Option<ReservationId>,
    ) -> Result<Spot, NoRoom> {
        let own = instead_of.and_then(|id| self.holders.get(&id));
        let fits = match inventory {
            Inventory::Places { capacity } => {
                let own = own.map_or(0, |r| r.party);
                let others = self.people - own;
                // Whoever comes with fewer people may, also where the venue has made itself smaller since.
                party <= own || u64::from(others) + u64::from(party) <= u64::from(*capacity)
            }
            Inventory::Exclusive => self.holders.len() == usize::from(own.is_some()),
            Inventory::Tables { tables } => {
                let table = self.table_for(tables, party, own.and_then(|r| r.table));
                let spot = table.map(|table| Spot { table: Some(table), ..Spot::default() });
                return spot.ok_or_else(|| NoRoom::Tables(self.remaining(inventory)));
            }
            Inventory::Seats { sections } => {
                return self.seats_for(sections, party, wanted, own.map(|r| r.id));
            }
        };
        if fits { Ok(Spot::default()) } else { Err(NoRoom::Places(self.remaining(inventory))) }
    }

    /// All of the seats that are wanted, or the best that are together.
    fn seats_for(
        &self,
        hall: &Hall,
        party: u32,
        wanted: Wanted<'_>,
        own: Option<ReservationId>,
    ) -> Result<Spot, NoRoom> {
        let is_free = |seat: &Seat| self.by_seat.get(seat).is_none_or(|holder| Some(*holder) == own);
        #[cfg(feature = "simulation")]
        let is_free = |seat: &Seat| crate::flaws::has("seat-taken-twice") || is_free(seat);
        let section = match wanted {
            Wanted::Seats(seats) => {
                // Whatever was named has to be there: a hall may have changed since it was asked for.
                let all = seats.iter().all(|seat| hall.price(seat).is_some() && is_free(seat));
                let spot = all.then(|| Spot { table: None, seats: seats.into() });
                return spot.ok_or_else(|| NoRoom::Seats(self.seats_left(hall)));
            }
            Wanted::In(section) => Some(section),
            Wanted::Any => None,
        };
        // A smaller party keeps the best of its own.
        if let Some(own) = own.and_then(|id| self.holders.get(&id)).filter(|own| party < own.party)
            && let Some(seats) = hall.best(party, section, |seat| own.seats.contains(seat))
        {
            return Ok(Spot { table: None, seats: seats.into() });
        }
        // A sold-out hall is not searched, however many ask.
        let left = self.seats_left(hall);
        if left < party && own.is_none() {
            return Err(NoRoom::Places(left));
        }
        match hall.best(party, section, is_free) {
            Some(seats) => Ok(Spot { table: None, seats: seats.into() }),
            None => Err(NoRoom::Seats(hall.most_together(section, is_free))),
        }
    }

    fn seats_left(&self, hall: &Hall) -> u32 {
        hall.count().saturating_sub(u32::try_from(self.by_seat.len()).unwrap_or(u32::MAX))
    }

    /// The smallest free table that fits; among equals the one that the party has already, then the lowest number.
    fn table_for(&self, tables: &[Table], party: u32, own: Option<u32>) -> Option<u32> {
        tables
            .iter()
            .filter(|table| table.seats >= party)
            .filter(|table| Some(table.number) == own || !self.by_table.contains_key(&table.number))
            .min_by_key(|table| (table.seats, Some(table.number) != own, table.number))
            .map(|table| table.number)
    }

    /// The hold whose deadline is the first to have passed at `at`.
    pub fn first_expired(&self, at: Timestamp) -> Option<ReservationId> {
        self.by_deadline.first().filter(|(deadline, _)| *deadline <= at).map(|&(_, id)| id)
    }

    /// Takes in a reservation as it is now, or lets it go if it no longer holds places here.
    pub(crate) fn put(&mut self, reservation: Arc<Reservation>) {
        self.remove(reservation.id);
        if reservation.slot != self.id || !reservation.status().holds_places() {
            return;
        }
        self.people += reservation.party;
        self.by_person.insert(reservation.person, reservation.id);
        if let Some(table) = reservation.table {
            self.by_table.insert(table, reservation.id);
        }
        for seat in reservation.seats.iter() {
            self.by_seat.insert(seat.clone(), reservation.id);
        }
        if reservation.status() == Status::Temporary {
            self.by_deadline.insert((reservation.expires_at, reservation.id));
        }
        self.holders.insert(reservation.id, reservation);
    }

    fn remove(&mut self, id: ReservationId) {
        let Some(old) = self.holders.remove(&id) else { return };
        self.people -= old.party;
        self.by_person.remove(&old.person);
        if let Some(table) = old.table {
            self.by_table.remove(&table);
        }
        for seat in old.seats.iter() {
            self.by_seat.remove(seat);
        }
        self.by_deadline.remove(&(old.expires_at, id));
    }
}
