//! The desk runs lanes against the store: it takes people in, decides them in order, batch by batch, and keeps their
//! answers for them.
//!
//! It knows nothing of HTTP. Whoever enters gets a [`Ticket`] and may wait on it or come back.

mod recall;
mod runner;
mod ticket;
mod tickets;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use booking::{Action, Command, Outcome, PersonId, SlotId, TicketId};
use fairlane::lane::{Bounds, Lanes, Position, Refused, Side};
use store::{Error, Logged, Store};
use tokio::task::JoinHandle;

pub use ticket::{Answer, Key, Settled, Ticket, Waited};

use crate::admission::{Hold, Keys};
use crate::clock::Clock;
use crate::venues::Venues;
use tickets::Tickets;

/// How long an idle lane remembers its slot.
const IDLE: Duration = Duration::from_secs(300);

/// How much the desk takes on.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The bounds of the lanes.
    pub bounds: Bounds,
    /// How many lanes are run at the same time.
    pub runners: usize,
}

/// The desk.
pub struct Desk {
    lanes: Arc<Lanes<SlotId, Arc<Ticket>, booking::Slot>>,
    tickets: Tickets,
    keys: Arc<Keys>,
    store: Arc<Store>,
    venues: Arc<Venues>,
    clock: Clock,
    epoch: u32,
    in_trouble: AtomicUsize,
}

/// What has become of a ticket.
pub enum Found {
    /// It is in line, or was decided a short while ago.
    InMemory(Arc<Ticket>),
    /// It was decided a while ago.
    InLog(Logged),
}

impl Desk {
    /// A desk with its runners. They end after [`Desk::close`].
    pub async fn open(
        store: Arc<Store>,
        venues: Arc<Venues>,
        keys: Arc<Keys>,
        clock: Clock,
        limits: Limits,
    ) -> Result<(Arc<Self>, Vec<JoinHandle<()>>), Error> {
        let epoch = store.next_epoch().await?;
        let lanes = Lanes::new(limits.bounds);
        let desk = Arc::new(Self {
            lanes,
            tickets: Tickets::new(),
            keys,
            store,
            venues,
            clock,
            epoch,
            in_trouble: AtomicUsize::new(0),
        });
        let runners = (0..limits.runners.max(1)).map(|_| tokio::spawn(runner::run(desk.clone()))).collect();
        Ok((desk, runners))
    }

    /// Takes a place in the line of a slot.
    pub fn enter(
        &self,
        slot: SlotId,
        person: PersonId,
        action: Action,
        key: Option<Key>,
        hold: Option<Hold>,
    ) -> Result<Arc<Ticket>, Refused> {
        let side = if action.is_owners() { Side::Owner } else { Side::Guest };
        let mut entered = None;
        self.lanes.enter(slot, side, |number| {
            let ticket = TicketId::new(slot, self.epoch, number);
            let command = Command { ticket, entered_at: self.clock.now(), person, action };
            let ticket = Arc::new(Ticket::new(command, key, hold));
            self.tickets.insert(ticket.clone());
            entered = Some(ticket.clone());
            ticket
        })?;
        // The closure has run: only then is the entry accepted.
        entered.ok_or(Refused::Closed)
    }

    /// A ticket, wherever its answer is.
    pub async fn find(&self, id: TicketId) -> Result<Option<Found>, Error> {
        if let Some(ticket) = self.tickets.get(id) {
            return Ok(Some(Found::InMemory(ticket)));
        }
        Ok(self.store.decided(id).await?.map(Found::InLog))
    }

    /// Where a ticket stands; at the very head while it is being decided.
    pub fn position(&self, id: TicketId) -> Position {
        self.lanes.position(&id.slot, id.number()).unwrap_or_else(|| self.lanes.overview(&id.slot))
    }

    /// How many wait for a slot.
    pub fn waiting(&self, slot: SlotId) -> usize {
        self.lanes.overview(&slot).waiting
    }

    /// How many wait in all, and how many in the longest line.
    pub fn lines(&self) -> (usize, usize) {
        (self.lanes.waiting(), self.lanes.longest())
    }

    /// Leaves the line, unless the turn has come: then the answer follows.
    pub fn leave(&self, ticket: &Ticket) -> bool {
        let left = self.lanes.leave(&ticket.id().slot, ticket.id().number()).is_some();
        if left {
            self.settle(ticket, Answer::Left);
            self.keys.release(ticket);
        }
        left
    }

    fn settle(&self, ticket: &Ticket, answer: Answer) {
        count(ticket, &answer);
        if matches!(answer, Answer::KeyMismatch) {
            self.keys.release(ticket);
        }
        ticket.settle(answer);
        for forgotten in self.tickets.decided(ticket.id()) {
            self.keys.release(&forgotten);
        }
    }

    /// Forgets old answers and idle lanes: `is_over` tells which slots nobody can enter again.
    pub fn tidy(&self, is_over: impl Fn(&SlotId) -> bool) {
        for forgotten in self.tickets.sweep() {
            self.keys.release(&forgotten);
        }
        self.lanes.retire(IDLE, is_over);
    }

    /// Whether some batch cannot be stored just now.
    pub fn is_in_trouble(&self) -> bool {
        self.in_trouble.load(Ordering::Acquire) > 0
    }

    /// Takes nobody in, decides whoever is in line, for so long at most, then ends the runners.
    pub async fn close(&self, patience: Duration) {
        self.lanes.shut();
        if tokio::time::timeout(patience, self.lanes.until_idle()).await.is_err() {
            tracing::warn!(waiting = self.lanes.waiting(), "shutting down with people in line");
        }
        self.lanes.close();
    }

    /// Lets go of those who wait in the call for a decision that will not come any more.
    pub fn let_go(&self) {
        self.tickets.undecided().iter().for_each(|ticket| ticket.stall());
    }
}

fn count(ticket: &Ticket, answer: &Answer) {
    let outcome = match answer {
        Answer::Decided(settled) => match &settled.outcome {
            Outcome::Done(_) => "done",
            Outcome::Refused(_) => "refused",
        },
        Answer::Left => "left",
        Answer::KeyMismatch => "refused",
        Answer::Failed => "failed",
    };
    let action = ticket.command.action.verdict().as_str();
    metrics::counter!("maitred_outcomes_total", "action" => action, "outcome" => outcome).increment(1);
    metrics::histogram!("maitred_wait_seconds", "action" => action).record(ticket.since.elapsed());
}
