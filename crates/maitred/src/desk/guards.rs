//! The guard against double clicks: one request under way for each name (A5).
//!
//! It is taken together with the place in line and ends with the answer: at once after a refusal, a while later after a
//! new reservation. A second request meanwhile is told which ticket the first one has. Here are the guards of lines in
//! this process; those of shared lines are kept with the lines.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use booking::{Action, News, PersonId, ReservationId, SlotId, TicketId};
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use super::{Ticket, Turned};

/// How long the guard stands after a success (A5).
pub(super) const AFTER_SUCCESS: Duration = Duration::from_secs(5);

/// What can be asked for once at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Name {
    /// A place in a slot, by one person.
    Place(SlotId, PersonId),
    /// Anything about a reservation, so that nobody can crowd the side of a lane that goes first.
    Reservation(ReservationId),
    /// A place on the waitlist of a slot, by one person.
    List(SlotId, PersonId),
    /// A look at what the waitlist of a slot can be offered.
    Tending(SlotId),
    /// Tidying up after a hold. It stands in nobody's way.
    Expiry(ReservationId),
    /// What a provider says. The same said twice at once is heard once, and stands in nobody else's way.
    News(u64),
}

impl Name {
    pub(super) fn of(slot: SlotId, person: PersonId, action: &Action) -> Self {
        match (action, action.reservation()) {
            (Action::Expire { reservation }, _) => Self::Expiry(*reservation),
            (Action::Join { .. } | Action::Unlist {}, _) => Self::List(slot, person),
            (Action::Tend {}, _) => Self::Tending(slot),
            (Action::Provider(news) | Action::ReseatPaid(news), _) => Self::News(digest(news)),
            (_, Some(reservation)) => Self::Reservation(reservation),
            (_, None) => Self::Place(slot, person),
        }
    }

    /// How long it stands after a success.
    fn lingers(self) -> Duration {
        if matches!(self, Self::Place(..)) { AFTER_SUCCESS } else { Duration::ZERO }
    }
}

/// Names news, wherever they are told.
fn digest(news: &News) -> u64 {
    let text = format!("{} {:?} {:?}", news.payment, news.what, news.event);
    Sha256::digest(text).iter().take(8).fold(0, |name, byte| name << 8 | u64::from(*byte))
}

#[derive(Default)]
pub(super) struct Guards {
    live: Mutex<HashMap<Name, Live>>,
}

struct Live {
    ticket: TicketId,
    /// `None` while the ticket has no answer.
    until: Option<Instant>,
}

impl Live {
    fn stands(&self) -> bool {
        #[cfg(feature = "simulation")]
        if booking::flaws::has("guard-missing") {
            return false;
        }
        self.until.is_none_or(|until| until > Instant::now())
    }
}

impl Guards {
    fn live(&self) -> MutexGuard<'_, HashMap<Name, Live>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether nobody has this name.
    pub(super) fn is_free(&self, name: Name) -> Result<(), Turned> {
        match self.live().get(&name).filter(|live| live.stands()) {
            Some(first) => Err(Turned::InProgress(first.ticket)),
            None => Ok(()),
        }
    }

    /// Enters under the guard, unless somebody with the same name has entered and has no answer yet.
    pub(super) fn guarded(
        &self,
        name: Name,
        enter: impl FnOnce() -> Result<Arc<Ticket>, Turned>,
    ) -> Result<Arc<Ticket>, Turned> {
        // Held while entering: an answer that comes at once waits here before it ends the guard.
        let mut live = self.live();
        if let Some(first) = live.get(&name).filter(|live| live.stands()) {
            return Err(Turned::InProgress(first.ticket));
        }
        let ticket = enter()?;
        live.insert(name, Live { ticket: ticket.id(), until: None });
        Ok(ticket)
    }

    /// The ticket has its answer: whether it won.
    pub(super) fn end(&self, ticket: &Ticket, won: bool) {
        let name = ticket.name();
        let mut live = self.live();
        let Some(entry) = live.get_mut(&name).filter(|live| live.ticket == ticket.id()) else { return };
        if won && !name.lingers().is_zero() {
            entry.until = Some(Instant::now() + name.lingers());
        } else {
            live.remove(&name);
        }
    }

    /// Ends the guard of a success before its time: the place was given up.
    pub(super) fn clear(&self, name: Name) {
        let mut live = self.live();
        if live.get(&name).is_some_and(|live| live.until.is_some()) {
            live.remove(&name);
        }
    }

    /// Forgets guards whose time is over.
    pub(super) fn tidy(&self) {
        self.live().retain(|_, live| live.stands());
    }
}
