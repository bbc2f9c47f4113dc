//! Who sits where, as this process last saw it: for showing seats to many people, and for turning away at once whoever asks
//! for a seat that is held.
//!
//! A copy is a moment old at most. Nobody gets a seat because of it: that is decided in the slot's lane.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use booking::{Inventory, PersonId, Seat, Slot, SlotId};
use jiff::Timestamp;
use store::{Error, Store};
use tokio::time::Instant;

/// How old a copy may be.
const FRESH: Duration = Duration::from_millis(200);
/// A slot that nobody has looked at for so long is forgotten.
const IDLE: Duration = Duration::from_secs(60);

type Copy = Arc<tokio::sync::Mutex<Option<(Instant, Arc<Slot>)>>>;

/// Slots as they were a moment ago.
pub struct Seating {
    store: Arc<Store>,
    seen: Mutex<HashMap<SlotId, (Instant, Copy)>>,
}

impl Seating {
    /// Nothing is read until somebody asks.
    pub fn new(store: Arc<Store>) -> Self {
        Self { store, seen: Mutex::default() }
    }

    /// A slot as it was a moment ago; however many ask at once, one reads it.
    pub async fn of(&self, id: SlotId) -> Result<Arc<Slot>, Error> {
        let copy = {
            let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            let (used, copy) = seen.entry(id).or_insert_with(|| (Instant::now(), Copy::default()));
            *used = Instant::now();
            copy.clone()
        };
        let mut copy = copy.lock().await;
        if let Some((at, slot)) = &*copy
            && at.elapsed() < FRESH
        {
            return Ok(slot.clone());
        }
        let at = Instant::now();
        let slot = Arc::new(self.store.slot(id).await?);
        *copy = Some((at, slot.clone()));
        Ok(slot)
    }

    /// Whether any of these seats is held by somebody else; if so, how many are left.
    pub async fn taken(
        &self,
        id: SlotId,
        inventory: &Inventory,
        seats: &[Seat],
        person: PersonId,
        now: Timestamp,
    ) -> Result<Option<u32>, Error> {
        let slot = self.of(id).await?;
        let held = |seat: &Seat| {
            slot.of_seat(seat).is_some_and(|holder| holder.person != person && !holder.has_expired(now))
        };
        Ok(seats.iter().any(held).then(|| slot.open(inventory)))
    }

    /// Forgets slots that nobody looks at.
    pub fn tidy(&self) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.retain(|_, (used, _)| used.elapsed() < IDLE);
    }
}
