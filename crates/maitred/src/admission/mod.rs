//! Admission: who may stand in line, and who stands there already. It comes before any lane, and holds nothing while
//! people wait.

mod keys;

use std::sync::Arc;

use booking::{Action, PersonId, SlotId, TicketId};
use store::{Overdue, Store};

pub use keys::{Keys, Taken};

use crate::desk::{Desk, Key, Ticket, Turned, Wish};

/// The admission in front of one desk.
pub struct Admission {
    desk: Arc<Desk>,
    store: Arc<Store>,
    keys: Arc<Keys>,
}

/// Somebody has a place, or had one already.
#[derive(Clone)]
pub enum Admitted {
    /// The place in line, new or the one from before.
    InLine(Arc<Ticket>),
    /// The same request was decided a while ago.
    Before(TicketId),
}

impl Admission {
    /// The admission in front of a desk, sharing its keys.
    pub fn new(desk: Arc<Desk>, store: Arc<Store>, keys: Arc<Keys>) -> Self {
        Self { desk, store, keys }
    }

    /// A guest asks for a place. With a key, the same request has one place and one answer, however often it comes.
    pub async fn book(&self, wish: Wish) -> Result<Admitted, Turned> {
        let Some(key) = wish.key.clone() else { return self.desk.enter(wish).await.map(Admitted::InLine) };
        let person = wish.person;
        let claim = self.keys.claim(person, &key).map_err(|Taken| Turned::KeyMismatch)?;
        let first = || async {
            match self.store.request_key(person, key.text.to_string()).await? {
                Some(known) if known.body == key.body => Ok(Admitted::Before(known.ticket)),
                Some(_) => Err(Turned::KeyMismatch),
                None => self.desk.enter(wish).await.map(Admitted::InLine),
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

    /// Somebody asks for something about a reservation, in the lane of this slot.
    pub async fn manage(
        &self,
        slot: SlotId,
        person: PersonId,
        action: Action,
    ) -> Result<Arc<Ticket>, Turned> {
        self.desk.enter(Wish { slot, person, action, key: None, rate: None }).await
    }

    /// A hold has run out, and somebody tidies up.
    pub async fn expire(&self, hold: Overdue) -> Result<Arc<Ticket>, Turned> {
        self.manage(hold.slot, hold.person, Action::Expire { reservation: hold.reservation }).await
    }

    /// Forgets keys that nobody came back for.
    pub fn tidy(&self) {
        self.keys.tidy();
    }
}
