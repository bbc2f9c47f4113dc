//! Admission: who may stand in line, and who stands there already. It comes before any lane, and holds nothing while
//! people wait.

mod guard;
mod keys;

use std::sync::Arc;
use std::time::Duration;

use booking::{Action, PersonId, ReservationId, SlotId, TicketId};
use fairlane::lane::Refused;
use store::{Error, Overdue, Store};

pub use guard::{Guard, Hold};
pub use keys::{Keys, Taken};

use crate::desk::{Desk, Key, Ticket};

/// How long the guard stands after a success (A5).
const AFTER_SUCCESS: Duration = Duration::from_secs(5);

/// The admission in front of one desk.
pub struct Admission {
    desk: Arc<Desk>,
    store: Arc<Store>,
    keys: Arc<Keys>,
    booking: Arc<Guard<(PersonId, SlotId)>>,
    managing: Arc<Guard<ReservationId>>,
}

/// Somebody has a place, or had one already.
#[derive(Clone)]
pub enum Admitted {
    /// The place in line, new or the one from before.
    InLine(Arc<Ticket>),
    /// The same request was decided a while ago.
    Before(TicketId),
}

/// Why somebody has no place.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Turned {
    /// The same person has a request for the same thing under way (A5).
    #[error("a request is in progress")]
    InProgress(TicketId),
    /// The key was used for another request.
    #[error("the key was used for another request")]
    KeyMismatch,
    /// The line is full, or closed.
    #[error(transparent)]
    Line(#[from] Refused),
    /// The store did not answer.
    #[error(transparent)]
    Store(#[from] Error),
}

impl Admission {
    /// The admission in front of a desk, sharing its keys.
    pub fn new(desk: Arc<Desk>, store: Arc<Store>, keys: Arc<Keys>) -> Self {
        Self { desk, store, keys, booking: Guard::new(AFTER_SUCCESS), managing: Guard::new(Duration::ZERO) }
    }

    /// A guest asks for a place. With a key, the same request has one place and one answer, however often it comes.
    pub async fn book(
        &self,
        slot: SlotId,
        person: PersonId,
        action: Action,
        key: Option<Key>,
    ) -> Result<Admitted, Turned> {
        let Some(key) = key else { return self.enter_once(slot, person, action, None) };
        let claim = self.keys.claim(person, &key).map_err(|Taken| Turned::KeyMismatch)?;
        let first = || async {
            match self.store.request_key(person, key.text.to_string()).await? {
                Some(known) if known.body == key.body => Ok(Admitted::Before(known.ticket)),
                Some(_) => Err(Turned::KeyMismatch),
                None => self.enter_once(slot, person, action, Some(key.clone())),
            }
        };
        let admitted = claim.get_or_init(first).await.clone();
        if !matches!(admitted, Ok(Admitted::InLine(_))) {
            self.keys.forget(person, &key, &claim);
        }
        admitted
    }

    /// What became of the same request with the same key, if it came before.
    pub async fn before(&self, person: PersonId, key: &Key) -> Result<Option<Admitted>, Turned> {
        if let Some(admitted) = self.keys.admitted(person, key) {
            return Ok(Some(admitted));
        }
        let known = self.store.request_key(person, key.text.to_string()).await?;
        Ok(known.filter(|known| known.body == key.body).map(|known| Admitted::Before(known.ticket)))
    }

    fn enter_once(
        &self,
        slot: SlotId,
        person: PersonId,
        action: Action,
        key: Option<Key>,
    ) -> Result<Admitted, Turned> {
        let enter = |hold| self.desk.enter(slot, person, action, key, Some(hold)).map_err(Turned::from);
        self.booking.guarded((person, slot), enter, Turned::InProgress).map(Admitted::InLine)
    }

    /// Somebody asks for something about a reservation, in the lane of this slot; one thing at a time, so that nobody can
    /// crowd the side of a lane that goes first.
    pub fn manage(
        &self,
        slot: SlotId,
        person: PersonId,
        reservation: ReservationId,
        action: Action,
    ) -> Result<Arc<Ticket>, Turned> {
        let enter = |hold| self.desk.enter(slot, person, action, None, Some(hold)).map_err(Turned::from);
        self.managing.guarded(reservation, enter, Turned::InProgress)
    }

    /// A hold has run out, and somebody tidies up. It stands in nobody's way.
    pub fn expire(&self, hold: Overdue) -> Result<Arc<Ticket>, Turned> {
        let action = Action::Expire { reservation: hold.reservation };
        Ok(self.desk.enter(hold.slot, hold.person, action, None, None)?)
    }

    /// Lets a person ask again for a slot that they have given up.
    pub fn clear(&self, person: PersonId, slot: SlotId) {
        self.booking.clear(&(person, slot));
    }

    /// Forgets guards whose time is over, and keys that nobody came back for.
    pub fn tidy(&self) {
        self.keys.tidy();
        self.booking.tidy();
        self.managing.tidy();
    }
}
