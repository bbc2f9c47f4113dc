//! Waiting rooms: who stands in them, who is let in, and what everybody sees of it (C1–C3).
//!
//! Whoever asks for a place or gives one up stands at a counter; the whole batch is decided by [`booking::room`] and stored
//! on the condition of the opening's version (`clerk.rs`). What people see of a room comes from a copy that each process
//! reads now and then, however many look (`view.rs`). Numbers come from the database alone, so neither an emptied Redis nor
//! a dead process changes anything about them.

mod clerk;
mod view;

use std::sync::Arc;
use std::time::Duration;

use booking::room::{Answer, Token, Wish};
use booking::{PersonId, VenueId};
use fairlane::lane::{Bounds, Side};
use store::{Error, Store};
use tokio::task::JoinHandle;

pub use view::View;

use crate::clock::Clock;
use crate::counter::{Counter, Unserved};
use clerk::Usher;
use view::Views;

/// Rooms that are served at the same time.
const RUNNERS: usize = 4;

/// All waiting rooms, as this process serves them.
pub struct WaitingRooms {
    counter: Arc<Counter<Usher>>,
    views: Arc<Views>,
    store: Arc<Store>,
    clock: Clock,
}

/// Why a room did not do what somebody wished.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Unheard {
    /// The venue has no waiting room.
    #[error("there is no waiting room")]
    NoRoom,
    /// There was nobody to ask.
    #[error(transparent)]
    Unserved(#[from] Unserved),
    /// The store did not answer.
    #[error(transparent)]
    Store(#[from] Error),
}

impl WaitingRooms {
    /// The rooms with their runners.
    pub fn open(store: Arc<Store>, clock: Clock, bounds: Bounds) -> (Arc<Self>, Vec<JoinHandle<()>>) {
        let views = Arc::new(Views::new(store.clone()));
        let usher = Usher { store: store.clone(), clock: clock.clone(), views: views.clone() };
        let (counter, runners) = Counter::open(usher, bounds, RUNNERS);
        (Arc::new(Self { counter, views, store, clock }), runners)
    }

    /// A place in the room of a venue, or the one that the person has already.
    pub async fn enter(&self, venue: VenueId, person: PersonId) -> Result<Answer, Unheard> {
        self.counter.ask(venue, Side::Guest, Wish::Ask(person)).await?
    }

    /// Gives a place up.
    pub async fn leave(&self, venue: VenueId, person: PersonId) -> Result<Answer, Unheard> {
        self.counter.ask(venue, Side::Owner, Wish::Leave(person)).await?
    }

    /// Somebody has finished, or something else may have made room: lets in whoever fits, some time soon.
    pub fn nudge(&self, venue: VenueId) {
        self.counter.nudge(venue, Wish::Tick);
    }

    /// Somebody may have finished at this venue: where it has a room, lets in whoever fits, some time soon.
    pub fn left(&self, venue: VenueId) {
        if self.views.has_room(venue) {
            self.nudge(venue);
        }
    }

    /// Lets in whoever fits.
    pub async fn tick(&self, venue: VenueId) -> Result<(), Unheard> {
        self.counter.ask(venue, Side::Owner, Wish::Tick).await?.map(drop)
    }

    /// What there is to see of a venue's opening and its room, as of a moment ago; nothing if it has neither.
    pub async fn view(&self, venue: VenueId) -> Result<Option<Arc<View>>, Error> {
        let view = self.views.get(venue).await?;
        if let Some(view) = &view
            && view.opening.terms.enabled
            && view.opening.is_due(self.clock.now())
        {
            self.nudge(venue);
        }
        Ok(view)
    }

    /// The same as of the last instants: for whoever knows of something that the view does not show.
    pub async fn recent(&self, venue: VenueId) -> Result<Option<Arc<View>>, Error> {
        self.views.recent(venue).await
    }

    /// The same as the store has it now.
    pub async fn refresh(&self, venue: VenueId) -> Result<Option<Arc<View>>, Error> {
        self.views.refresh(venue).await
    }

    /// Somebody's latest place in the room that is seen here.
    pub async fn token(&self, view: &View, person: PersonId) -> Result<Option<Token>, Error> {
        self.store.token(view.opening.id, person).await
    }

    /// Somebody inside does something; whether they may. It is written down now and then, not every time.
    pub async fn may(&self, view: &View, token: &Token) -> Result<bool, Error> {
        let (terms, now) = (&view.opening.terms, self.clock.now());
        if !token.is_inside(terms, now) {
            return Ok(false);
        }
        if token.seen_at.is_some_and(|seen_at| terms.is_worth_noting(seen_at, now)) {
            return self.store.seen(*token, now).await;
        }
        Ok(true)
    }

    /// Does what is due in all rooms, `limit` of them at most: opens, ends the time of the idle, lets in.
    pub async fn sweep(&self, limit: u32) -> Result<(), Error> {
        for venue in self.store.due_rooms(self.clock.now(), limit).await? {
            match self.tick(venue).await {
                Err(Unheard::Store(error)) => return Err(error),
                Err(error) => tracing::warn!(%error, %venue, "a waiting room was not swept"),
                Ok(()) => {}
            }
        }
        Ok(())
    }

    /// Forgets idle lines.
    pub fn tidy(&self) {
        self.counter.tidy();
    }

    /// Serves whoever is in line, and ends the runners.
    pub async fn close(&self, patience: Duration) {
        self.counter.close(patience).await;
    }
}
