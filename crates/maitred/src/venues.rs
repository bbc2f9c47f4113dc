//! Venues as this process last saw them.
//!
//! A copy may be old: batches are stored on the condition of the venue's version, so an old copy costs one more try and
//! never a wrong decision.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use booking::{Venue, VenueId};
use store::{Error, Store};
use tokio::time::Instant;

/// The venues, read once and again when they have changed.
pub struct Venues {
    store: Arc<Store>,
    known: RwLock<HashMap<VenueId, Known>>,
}

struct Known {
    venue: Arc<Venue>,
    /// When it was read, or somebody last set out to read it again.
    at: Instant,
}

/// Another process may have changed a venue: a copy older than this is read again, by one of those who use it.
const OLD: Duration = Duration::from_secs(2);

impl Venues {
    /// Nothing is read until somebody asks.
    pub fn new(store: Arc<Store>) -> Self {
        Self { store, known: RwLock::default() }
    }

    /// The venue, from memory if it is there.
    pub async fn get(self: &Arc<Self>, id: VenueId) -> Result<Option<Arc<Venue>>, Error> {
        let known = {
            let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
            known.get(&id).map(|known| (known.venue.clone(), known.at.elapsed() > OLD))
        };
        let Some((venue, old)) = known else { return self.refresh(id).await };
        if old && self.set_out(id) {
            let venues = self.clone();
            tokio::spawn(async move { venues.refresh(id).await });
        }
        Ok(Some(venue))
    }

    /// Whether nobody else is reading it again.
    fn set_out(&self, id: VenueId) -> bool {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let old = known.get_mut(&id).filter(|known| known.at.elapsed() > OLD);
        old.map(|known| known.at = Instant::now()).is_some()
    }

    /// The venue as the store has it now.
    pub async fn refresh(&self, id: VenueId) -> Result<Option<Arc<Venue>>, Error> {
        let venue = self.store.venue(id).await?.map(Arc::new);
        if let Some(venue) = &venue {
            let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
            let newer = known.get(&id).is_none_or(|known| known.venue.version <= venue.version);
            if newer {
                known.insert(id, Known { venue: venue.clone(), at: Instant::now() });
            }
        }
        Ok(venue)
    }
}
