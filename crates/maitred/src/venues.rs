//! Venues as this process last saw them.
//!
//! A copy may be old: batches are stored on the condition of the venue's version, so an old copy costs one more try and
//! never a wrong decision.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use booking::{Venue, VenueId};
use store::{Error, Store};

/// The venues, read once and again when they have changed.
pub struct Venues {
    store: Arc<Store>,
    known: RwLock<HashMap<VenueId, Arc<Venue>>>,
}

impl Venues {
    /// Nothing is read until somebody asks.
    pub fn new(store: Arc<Store>) -> Self {
        Self { store, known: RwLock::default() }
    }

    /// The venue, from memory if it is there.
    pub async fn get(&self, id: VenueId) -> Result<Option<Arc<Venue>>, Error> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner).get(&id).cloned();
        match known {
            Some(venue) => Ok(Some(venue)),
            None => self.refresh(id).await,
        }
    }

    /// The venue as the store has it now.
    pub async fn refresh(&self, id: VenueId) -> Result<Option<Arc<Venue>>, Error> {
        let venue = self.store.venue(id).await?.map(Arc::new);
        if let Some(venue) = &venue {
            let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
            known.insert(id, venue.clone());
        }
        Ok(venue)
    }
}
