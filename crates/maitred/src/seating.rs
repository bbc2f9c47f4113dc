//! Who has what in a slot, as this process last saw it: for showing it to many people, and for turning away at once whoever
//! asks for a seat that is held.
//!
//! What is shown is a moment old at most, and never older than what this process has told anybody; what somebody is turned away for was read since they asked. Nobody gets a place because
//! of it: that is decided in the slot's lane.

use std::sync::Arc;
use std::time::Duration;

use booking::{Inventory, PersonId, Seat, Slot, SlotId};
use jiff::Timestamp;
use store::{Error, Occupancy, Store};
use tokio::time::Instant;

use crate::recent::Recent;
use crate::venues::Venues;

/// How old what is shown may be.
const FRESH: Duration = Duration::from_millis(200);

/// Slots as they were a moment ago.
pub struct Seating {
    store: Arc<Store>,
    venues: Arc<Venues>,
    slots: Recent<SlotId, Arc<Slot>>,
    days: Recent<(SlotId, SlotId), Arc<[Occupancy]>>,
}

impl Seating {
    /// Nothing is read until somebody asks.
    pub fn new(store: Arc<Store>, venues: Arc<Venues>) -> Self {
        Self { store, venues, slots: Recent::default(), days: Recent::default() }
    }

    /// A slot as it was a moment ago.
    pub async fn of(&self, id: SlotId) -> Result<Arc<Slot>, Error> {
        self.slots.since(self.fresh(id), id, || self.read(id)).await
    }

    /// Since when something must have been read to be shown: a moment ago, or since this process told anybody otherwise.
    fn fresh(&self, slot: SlotId) -> Instant {
        let now = Instant::now();
        now.checked_sub(FRESH).unwrap_or(now).max(self.venues.last_answered(slot.venue()))
    }

    async fn read(&self, id: SlotId) -> Result<Arc<Slot>, Error> {
        self.store.slot(id).await.map(Arc::new)
    }

    /// What was taken a moment ago of a venue's slots, from one to another.
    pub async fn occupancy(
        &self,
        from: SlotId,
        to: SlotId,
        now: Timestamp,
    ) -> Result<Arc<[Occupancy]>, Error> {
        let read = || async { self.store.occupancy(from, to, now).await.map(Arc::from) };
        self.days.since(self.fresh(from), (from, to), read).await
    }

    /// Whether any of these seats is held by somebody else; if so, how many are left. `None` also while nobody can tell: then
    /// the lane will.
    pub async fn taken(
        &self,
        id: SlotId,
        inventory: &Inventory,
        seats: &[Seat],
        person: PersonId,
        now: Timestamp,
    ) -> Option<u32> {
        let slot = self.slots.since(Instant::now(), id, || self.read(id)).await.ok()?;
        let held = |seat: &Seat| {
            slot.of_seat(seat).is_some_and(|holder| holder.person != person && !holder.has_expired(now))
        };
        seats.iter().any(held).then(|| slot.open(inventory))
    }

    /// Forgets slots that nobody looks at.
    pub fn tidy(&self) {
        self.slots.tidy();
        self.days.tidy();
    }
}
