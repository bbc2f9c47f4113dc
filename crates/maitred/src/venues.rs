//! Venues as this process last saw them.
//!
//! A copy may be old: batches are stored on the condition of the venue's version, so an old copy costs one more try and
//! never a wrong decision.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use booking::{Venue, VenueId};
use store::{Error, Store};
use tokio::time::Instant;

use crate::recent::Recent;

/// The venues, read once and again when they have changed.
pub struct Venues {
    store: Arc<Store>,
    known: RwLock<HashMap<VenueId, Known>>,
    /// Venues that are being read for the first time: by one of those who want to know.
    unknown: Recent<VenueId, Option<Arc<Venue>>>,
    beginning: Instant,
}

struct Known {
    venue: Arc<Venue>,
    /// When it was read, or somebody last set out to read it again.
    at: Instant,
    /// When somebody was last answered about one of its slots, in microseconds since the beginning.
    answered: AtomicU64,
}

/// Another process may have changed a venue: a copy older than this is read again, by one of those who use it.
const OLD: Duration = Duration::from_secs(2);

/// A venue that is not there is looked for again after this long.
const FIRST: Duration = Duration::from_millis(200);

impl Venues {
    /// Nothing is read until somebody asks.
    pub fn new(store: Arc<Store>) -> Self {
        Self { store, known: RwLock::default(), unknown: Recent::default(), beginning: Instant::now() }
    }

    /// The venue, from memory if it is there.
    pub async fn get(self: &Arc<Self>, id: VenueId) -> Result<Option<Arc<Venue>>, Error> {
        let known = {
            let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
            known.get(&id).map(|known| (known.venue.clone(), known.at.elapsed() > OLD))
        };
        let Some((venue, old)) = known else {
            return self.unknown.within(FIRST, id, || self.refresh(id)).await;
        };
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

    /// Somebody is told of a decision about one of its slots: whoever looks from now on should see it.
    pub fn answered(&self, id: VenueId) {
        let now = u64::try_from(self.beginning.elapsed().as_micros()).unwrap_or(u64::MAX);
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.get(&id) {
            known.answered.fetch_max(now, Ordering::AcqRel);
        }
    }

    /// When somebody was last told of a decision about one of its slots, by this process.
    pub fn last_answered(&self, id: VenueId) -> Instant {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let since = known.get(&id).map_or(0, |known| known.answered.load(Ordering::Acquire));
        self.beginning + Duration::from_micros(since)
    }

    /// Forgets venues that were looked for and are known by now, or are not there.
    pub fn tidy(&self) {
        self.unknown.tidy();
    }

    /// The venue as the store has it now.
    pub async fn refresh(&self, id: VenueId) -> Result<Option<Arc<Venue>>, Error> {
        let venue = self.store.venue(id).await?.map(Arc::new);
        if let Some(venue) = &venue {
            let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
            let newer = known.get(&id).is_none_or(|known| known.venue.version <= venue.version);
            if newer {
                let answered = known.get(&id).map_or(0, |known| known.answered.load(Ordering::Acquire));
                let answered = AtomicU64::new(answered);
                known.insert(id, Known { venue: venue.clone(), at: Instant::now(), answered });
            }
        }
        Ok(venue)
    }
}
