//! The desk runs lanes against the store: it takes people in, decides them in order, batch by batch, and keeps their
//! answers for them.
//!
//! It knows nothing of HTTP. Whoever enters gets a [`Ticket`] and may wait on it or come back.
//!
//! Lines are kept in this process, or in Redis where several processes share them (`shared`). While Redis is away,
//! each process goes on with lines of its own.

mod guards;
mod pulse;
mod recall;
mod runner;
mod shared;
mod ticket;
mod tickets;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use booking::{Action, Command, Outcome, PersonId, SlotId, TicketId, VenueId};
use fairlane::Pass;
use fairlane::lane::{Bounds, Lanes, Position, Refused, Side};
use fairlane::lanes::SharedLanes;
use store::{Error, Logged, Store};
use tokio::task::JoinHandle;
use tokio::time::Instant;

pub use pulse::{Beat, Second};
pub use ticket::{Answer, Key, Settled, Ticket, Waited};

use crate::admission::Keys;
use crate::chance;
use crate::clock::Clock;
use crate::venues::Venues;
use guards::{Guards, Name};
use pulse::Pulses;
use shared::Shared;
use tickets::Tickets;

/// How long an idle lane remembers its slot.
const IDLE: Duration = Duration::from_secs(300);
/// The window of a venue's rate limit (B2).
const SECOND: Duration = Duration::from_secs(1);

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
    shared: Option<Shared>,
    tickets: Tickets,
    guards: Guards,
    pulses: Pulses,
    /// The rate limits of lines in this process.
    rates: fairlane::Client,
    keys: Arc<Keys>,
    store: Arc<Store>,
    venues: Arc<Venues>,
    clock: Clock,
    limits: Limits,
    /// The life of the lines in this process; 0 when a new one is to be drawn.
    epoch: AtomicU32,
    drawing: tokio::sync::Mutex<()>,
    in_trouble: AtomicUsize,
}

/// Where a line is kept.
#[derive(Clone, Copy)]
enum Line {
    /// In this process.
    Here,
    /// Where other processes share it.
    Shared,
}

/// What somebody wants, before it has a place.
#[derive(Debug)]
pub struct Wish {
    /// The slot in whose line to stand.
    pub slot: SlotId,
    /// Who.
    pub person: PersonId,
    /// What.
    pub action: Action,
    /// The key it came with.
    pub key: Option<Key>,
    /// How many people may join the venue's lines in a second, where that is limited.
    pub rate: Option<u32>,
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
    /// Too many people in a second (B2): come back after this long.
    #[error("too many requests")]
    Limited(Duration),
    /// The line is full, or closed.
    #[error(transparent)]
    Line(#[from] Refused),
    /// The store did not answer.
    #[error(transparent)]
    Store(#[from] Error),
}

/// What has become of a ticket.
pub enum Found {
    /// It is in line, or was decided a short while ago.
    InMemory(Arc<Ticket>),
    /// It was decided a while ago.
    InLog(Logged),
    /// It may stand in a line of another process, which cannot be asked just now.
    Unknown,
}

impl Desk {
    /// A desk with its runners. They end after [`Desk::close`].
    pub async fn open(
        store: Arc<Store>,
        venues: Arc<Venues>,
        keys: Arc<Keys>,
        clock: Clock,
        limits: Limits,
        shared: Option<SharedLanes>,
    ) -> Result<(Arc<Self>, Vec<JoinHandle<()>>), Error> {
        let shared = match shared {
            Some(lanes) => Some(Shared::open(lanes).await),
            None => None,
        };
        let desk = Arc::new(Self {
            lanes: Lanes::new(limits.bounds),
            shared,
            tickets: Tickets::new(),
            guards: Guards::default(),
            pulses: Pulses::new(),
            rates: fairlane::Client::in_process(),
            keys,
            store,
            venues,
            clock,
            limits,
            epoch: AtomicU32::new(0),
            drawing: tokio::sync::Mutex::default(),
            in_trouble: AtomicUsize::new(0),
        });
        desk.epoch().await?;
        let workers = 0..limits.runners.max(1);
        let mut runners: Vec<_> = workers.clone().map(|_| tokio::spawn(runner::run(desk.clone()))).collect();
        if desk.shared.is_some() {
            runners.extend(workers.map(|_| tokio::spawn(shared::run(desk.clone()))));
            runners.extend(shared::chores(&desk));
        }
        Ok((desk, runners))
    }

    /// Takes a place in the line of a slot.
    pub async fn enter(self: &Arc<Self>, wish: Wish) -> Result<Arc<Ticket>, Turned> {
        if !wish.action.is_owners() {
            self.pulses.entered(wish.slot);
        }
        let wish = match &self.shared {
            Some(shared) if shared.is_up() => match self.enter_shared(shared, wish).await {
                Ok(entered) => return entered,
                Err(wish) => wish,
            },
            _ => wish,
        };
        self.enter_here(wish).await
    }

    /// Takes a place in a line of this process.
    async fn enter_here(&self, wish: Wish) -> Result<Arc<Ticket>, Turned> {
        let Wish { slot, person, action, key, rate } = wish;
        let epoch = self.epoch().await?;
        let name = Name::of(slot, person, &action);
        self.guards.is_free(name)?;
        if let Some(limit) = rate {
            let limiter = self.rates.rate_limiter(&slot.venue().to_string(), limit, SECOND);
            if let Ok(Pass::Limited { retry_after }) = limiter.check().await {
                return Err(Turned::Limited(retry_after));
            }
        }
        let side = side(&action);
        // Whoever comes over from the shared lines is let in first.
        let _gate = self.shared.as_ref().map(Shared::gate);
        self.guards.guarded(name, || {
            let mut entered = None;
            self.lanes.enter(slot, side, |number| {
                let ticket = TicketId::new(slot, epoch, number);
                let command = Command { ticket, entered_at: self.clock.now(), person, action };
                let ticket = Arc::new(Ticket::new(command, key, chance::short()));
                ticket.here.store(number, Ordering::Release);
                entered = Some(self.tickets.keep(ticket.clone()));
                ticket
            })?;
            // The closure has run: only then is the entry accepted.
            entered.ok_or(Turned::Line(Refused::Closed))
        })
    }

    /// The life of the lines in this process.
    async fn epoch(&self) -> Result<u32, Error> {
        let drawn = || Some(self.epoch.load(Ordering::Acquire)).filter(|epoch| *epoch != 0);
        if let Some(epoch) = drawn() {
            return Ok(epoch);
        }
        let _one_at_a_time = self.drawing.lock().await;
        if let Some(epoch) = drawn() {
            return Ok(epoch);
        }
        let epoch = self.draw_epoch(Line::Here).await?;
        self.epoch.store(epoch, Ordering::Release);
        Ok(epoch)
    }

    /// A life later than all before. Where lines are shared, lives of shared ones are even and of others odd, so that everybody
    /// knows of which sort a ticket is.
    async fn draw_epoch(&self, line: Line) -> Result<u32, Error> {
        let drawn = self.store.next_epoch().await?;
        Ok(match (&self.shared, line) {
            (None, _) => drawn,
            (Some(_), Line::Shared) => 2 * drawn,
            (Some(_), Line::Here) => 2 * drawn + 1,
        })
    }

    /// A ticket, wherever its answer is.
    pub async fn find(&self, id: TicketId) -> Result<Option<Found>, Error> {
        if let Some(ticket) = self.tickets.get(id) {
            if let Some(shared) = &self.shared {
                self.catch_up(shared, &ticket).await?;
            }
            return Ok(Some(Found::InMemory(ticket)));
        }
        if let Some(shared) = &self.shared
            && let Some(ticket) = self.find_shared(shared, id).await
        {
            return Ok(Some(Found::InMemory(ticket)));
        }
        let logged = self.store.decided(id).await?.map(Found::InLog);
        // A line of another process cannot be asked.
        let is_unsure = |shared: &Shared| shared.is_unsure() || !id.epoch().is_multiple_of(2);
        let unsure = self.shared.as_ref().is_some_and(is_unsure);
        Ok(logged.or(unsure.then_some(Found::Unknown)))
    }

    /// Where a ticket stands; at the very head while it is being decided.
    pub async fn position(&self, ticket: &Ticket) -> Position {
        let slot = ticket.id().slot;
        match (&self.shared, ticket.here.load(Ordering::Acquire)) {
            (Some(shared), 0) => self.position_shared(shared, ticket).await,
            (_, number) => self.lanes.position(&slot, number).unwrap_or_else(|| self.lanes.overview(&slot)),
        }
    }

    /// How many wait for a slot.
    pub async fn waiting(&self, slot: SlotId) -> usize {
        let here = self.lanes.overview(&slot).waiting;
        match &self.shared {
            Some(shared) => here + self.waiting_shared(shared, slot).await,
            None => here,
        }
    }

    /// How many wait for each of these slots of one venue.
    pub async fn waiting_for(&self, slots: &[SlotId]) -> Vec<usize> {
        let mut waiting: Vec<_> = slots.iter().map(|slot| self.lanes.overview(slot).waiting).collect();
        if let Some(shared) = &self.shared {
            let elsewhere = self.waiting_for_shared(shared, slots).await;
            waiting.iter_mut().zip(elsewhere).for_each(|(waiting, more)| *waiting += more);
        }
        waiting
    }

    /// The last minute of a venue, as this process saw it.
    pub fn beat(&self, venue: VenueId) -> Beat {
        self.pulses.beat(venue)
    }

    /// How many wait in all, and how many in the longest line, as far as this process knows.
    pub fn lines(&self) -> (usize, usize) {
        let (waiting, longest) = (self.lanes.waiting(), self.lanes.longest());
        match &self.shared {
            Some(shared) => {
                let elsewhere = self.tickets.undecided().iter().filter(|t| t.stands_elsewhere()).count();
                (waiting + elsewhere, longest.max(shared.longest()))
            }
            None => (waiting, longest),
        }
    }

    /// Whether a ticket can leave its line: one that stood in a shared line cannot while Redis is away, because others may
    /// decide it.
    pub fn can_leave(&self, ticket: &Ticket) -> bool {
        let away = ticket.here.load(Ordering::Acquire) > 0 && ticket.again.load(Ordering::Acquire);
        ticket.answer().is_some() || !away
    }

    /// Leaves the line, unless the turn has come: then the answer follows.
    pub async fn leave(&self, ticket: &Arc<Ticket>) -> bool {
        let slot = ticket.id().slot;
        let left = match (&self.shared, ticket.here.load(Ordering::Acquire)) {
            (Some(shared), 0) => self.leave_shared(shared, ticket).await,
            (_, number) => self.lanes.leave(&slot, number).is_some(),
        };
        if left && self.shared.is_some() {
            // It may have been decided by a process that is cut off from the shared line; if the log cannot be read, that
            // is found out later.
            let _ = self.answer_decided(&mut vec![ticket.clone()]).await;
        }
        if left && ticket.answer().is_some_and(|answer| !matches!(answer, Answer::Left)) {
            return false;
        }
        if left {
            self.settle(ticket, Answer::Left);
            self.keys.release(ticket);
        }
        left
    }

    fn settle(&self, ticket: &Ticket, answer: Answer) {
        if self.shared.is_some()
            && let Some(twin) = self.tickets.twin(ticket)
        {
            self.settle(&twin, answer.clone());
        }
        let mismatch = matches!(answer, Answer::KeyMismatch);
        self.venues.answered(ticket.id().slot.venue());
        let (outcome, action) = (outcome(&answer), ticket.command.action.verdict().as_str());
        if !ticket.settle(answer, |won| self.guards.end(ticket, won)) {
            return;
        }
        // Counted where the request came in, wherever it was decided.
        if ticket.origin.is_none() {
            if let Some(answer) = ticket.answer().filter(|_| !ticket.command.action.is_owners()) {
                self.pulses.settled(ticket, answer);
            }
            metrics::counter!("maitred_outcomes_total", "action" => action, "outcome" => outcome)
                .increment(1);
            metrics::histogram!("maitred_wait_seconds", "action" => action).record(ticket.since.elapsed());
        }
        if mismatch {
            self.keys.release(ticket);
        }
        for forgotten in self.tickets.decided(ticket) {
            self.keys.release(&forgotten);
        }
    }

    /// Forgets old answers, guards whose time is over and idle lanes: `is_over` tells which slots nobody can enter again.
    pub fn tidy(&self, is_over: impl Fn(&SlotId) -> bool) {
        for forgotten in self.tickets.sweep() {
            self.keys.release(&forgotten);
        }
        self.guards.tidy();
        self.pulses.tidy();
        self.lanes.retire(IDLE, is_over);
        if let Some(shared) = &self.shared {
            shared.tidy();
        }
    }

    /// Whether some batch cannot be stored just now.
    pub fn is_in_trouble(&self) -> bool {
        self.in_trouble.load(Ordering::Acquire) > 0
    }

    /// Whether lines that should be shared are kept in this process, because Redis is away.
    pub fn is_degraded(&self) -> bool {
        self.shared.as_ref().is_some_and(|shared| !shared.is_up())
    }

    /// Takes nobody in, decides whoever is in line, for so long at most, then ends the runners. What stands in a shared line
    /// then is left to other processes.
    pub async fn close(&self, patience: Duration) {
        let deadline = Instant::now() + patience;
        self.lanes.shut();
        if let Some(shared) = &self.shared {
            shared.shut();
            self.until_decided(deadline).await;
            shared.close();
        }
        if tokio::time::timeout_at(deadline, self.lanes.until_idle()).await.is_err() {
            tracing::warn!(waiting = self.lanes.waiting(), "shutting down with people in line");
        }
        self.lanes.close();
    }

    /// Lets go of those who wait in the call for a decision that will not come any more, or from elsewhere.
    pub fn let_go(&self) {
        for ticket in self.tickets.undecided() {
            if self.shared.is_some() && ticket.stands_elsewhere() { ticket.let_go() } else { ticket.stall() }
        }
    }
}

fn side(action: &Action) -> Side {
    if action.is_owners() { Side::Owner } else { Side::Guest }
}

fn outcome(answer: &Answer) -> &'static str {
    match answer {
        Answer::Decided(settled) => match &settled.outcome {
            Outcome::Done(_) | Outcome::Noted => "done",
            Outcome::Refused(_) => "refused",
        },
        Answer::Left => "left",
        Answer::KeyMismatch => "refused",
        Answer::Failed => "failed",
    }
}
