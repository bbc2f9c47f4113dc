//! The state of one slot: who holds what in it.
//!
//! There is no counter beside it that could drift: what is left is always derived from the reservations that hold
//! places. Every question is answered in O(log n), so that a slot with a hundred thousand places decides as fast as one
//! with twenty.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use jiff::Timestamp;

use crate::ids::{PersonId, ReservationId, SlotId};
use crate::reservation::{Reservation, Status};
use crate::venue::{Inventory, Table};

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
    by_deadline: BTreeSet<(Timestamp, ReservationId)>,
    people: u32,
}

/// There is no room for a party; so much is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoRoom {
    /// People, reservations or tables, by the inventory.
    pub remaining: u32,
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
            by_deadline: BTreeSet::new(),
            people: 0,
        };
        for reservation in holders {
            slot.put(Arc::new(reservation));
        }
        slot
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

    /// What is left to book.
    pub fn remaining(&self, inventory: &Inventory) -> u32 {
        match inventory {
            Inventory::Places { capacity } => capacity.saturating_sub(self.people),
            Inventory::Exclusive => u32::from(self.holders.is_empty()),
            Inventory::Tables { tables } => {
                let free = tables.iter().filter(|table| !self.by_table.contains_key(&table.number)).count();
                u32::try_from(free).unwrap_or(u32::MAX)
            }
        }
    }

    /// Where a party can sit: a table, or simply somewhere. `instead_of` gives up its own place for it.
    pub fn room_for(
        &self,
        inventory: &Inventory,
        party: u32,
        instead_of: Option<ReservationId>,
    ) -> Result<Option<u32>, NoRoom> {
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
                return table.map(Some).ok_or(NoRoom { remaining: self.remaining(inventory) });
            }
        };
        if fits { Ok(None) } else { Err(NoRoom { remaining: self.remaining(inventory) }) }
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
        self.by_deadline.remove(&(old.expires_at, id));
    }
}
