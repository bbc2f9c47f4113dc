//! The guard against double clicks: one request under way for each key (A5).
//!
//! It is taken together with the place in line and ends with the answer: at once after a refusal, a while later after a
//! success. A second request meanwhile is told which ticket the first one has.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use booking::TicketId;
use tokio::time::Instant;

use crate::desk::Ticket;

/// Guards by key.
pub struct Guard<K> {
    live: Mutex<HashMap<K, Live>>,
    after_success: Duration,
}

struct Live {
    ticket: TicketId,
    /// `None` while the ticket has no answer.
    until: Option<Instant>,
}

impl Live {
    fn stands(&self) -> bool {
        self.until.is_none_or(|until| until > Instant::now())
    }
}

/// What a ticket holds of a guard until it has its answer.
pub struct Hold(Box<dyn Fn(bool) + Send + Sync>);

impl Hold {
    /// The ticket has its answer: whether it won.
    pub fn end(&self, won: bool) {
        (self.0)(won);
    }
}

impl<K: Hash + Eq + Clone + Send + Sync + 'static> Guard<K> {
    /// A guard that stands so long after a success.
    pub fn new(after_success: Duration) -> Arc<Self> {
        Arc::new(Self { live: Mutex::default(), after_success })
    }

    fn live(&self) -> MutexGuard<'_, HashMap<K, Live>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters under the guard, unless somebody with the same key has entered and has no answer yet.
    pub fn guarded<E>(
        self: &Arc<Self>,
        key: K,
        enter: impl FnOnce(Hold) -> Result<Arc<Ticket>, E>,
        in_progress: impl FnOnce(TicketId) -> E,
    ) -> Result<Arc<Ticket>, E> {
        // Held while entering: an answer that comes at once waits here before it ends the guard.
        let mut live = self.live();
        if let Some(first) = live.get(&key).filter(|live| live.stands()) {
            return Err(in_progress(first.ticket));
        }
        let hold = Hold(Box::new({
            let (guard, key) = (self.clone(), key.clone());
            move |won| guard.end(&key, won)
        }));
        let ticket = enter(hold)?;
        live.insert(key, Live { ticket: ticket.id(), until: None });
        Ok(ticket)
    }

    fn end(&self, key: &K, won: bool) {
        let mut live = self.live();
        if won && !self.after_success.is_zero() {
            if let Some(entry) = live.get_mut(key) {
                entry.until = Some(Instant::now() + self.after_success);
            }
        } else {
            live.remove(key);
        }
    }

    /// Ends the guard of a success before its time.
    pub fn clear(&self, key: &K) {
        let mut live = self.live();
        if live.get(key).is_some_and(|live| live.until.is_some()) {
            live.remove(key);
        }
    }

    /// Forgets guards whose time is over.
    pub fn tidy(&self) {
        self.live().retain(|_, live| live.stands());
    }
}
