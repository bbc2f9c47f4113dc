//! Lines that several processes share, kept in Redis.
//!
//! Redis gives the order; the store gives correctness, as with lines in this process. The process that took a request
//! keeps it until it has its answer, and enters it again where Redis has lost it. What is published is a hint: whoever
//! waits also looks ([`watch`]).
//!
//! Redis gone: everybody who waits here stands in a line of this process from then on, in the order they had. Redis back:
//! they return. Every return draws a new epoch, so nobody is compared with numbers of another life.

mod enter;
mod ready;
mod run;
mod watch;
mod wire;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use booking::{Slot, SlotId, TicketId, VenueId};
use fairlane::lane::Position;
use fairlane::lanes::{Found, LaneKey, Look, Place, SharedLanes};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Answer, Desk, IDLE, Line, Ticket, side};
use enter::Outbox;
use ready::Ready;

pub(super) use run::run;

/// How old a look at a lane may be that positions are told from.
const FRESH: Duration = Duration::from_millis(200);
/// After Redis came back, tickets may still be on their way to it for so long.
const UNSURE: Duration = Duration::from_secs(5);
/// Answers that are kept for tickets that this process does not know yet.
const EARLY: usize = 16_384;

/// Redis did not answer; the mode has changed.
#[derive(Debug)]
struct Away;

pub(super) struct Shared {
    lanes: SharedLanes,
    up: AtomicBool,
    shut: AtomicBool,
    /// Held for writing while people are brought over into lines of this process.
    gate: RwLock<()>,
    /// Lanes of an epoch below this need a new one: this process has been apart from them.
    floor: AtomicU32,
    /// The connection for which the floor is good.
    generation: AtomicU64,
    raising: tokio::sync::Mutex<()>,
    outboxes: Mutex<HashMap<SlotId, Outbox>>,
    ready: Ready,
    looks: Mutex<HashMap<SlotId, Looked>>,
    slots: Mutex<HashMap<SlotId, (Instant, Slot)>>,
    /// Answers that came before the ticket was known.
    early: Mutex<HashMap<TicketId, Answer>>,
    /// When this process last entered a lane of a venue.
    known: Mutex<HashMap<VenueId, Instant>>,
    /// The life in which this process last saw a lane.
    lives: Mutex<HashMap<SlotId, u32>>,
    unsure_until: Mutex<Option<Instant>>,
    /// Rung when something may have been lost.
    alarm: Notify,
    closed: CancellationToken,
}

struct Looked {
    at: Instant,
    look: Option<Arc<Look>>,
    /// Somebody is looking again.
    looking: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The lane of a slot. Lanes of a venue share its rate limit, and so live together.
fn key(slot: SlotId) -> LaneKey {
    LaneKey { group: slot.venue().to_string().into(), lane: slot.to_i64().to_string().into() }
}

fn place(ticket: TicketId) -> Place {
    Place { epoch: ticket.epoch(), number: ticket.number() }
}

fn ticket(slot: SlotId, place: Place) -> TicketId {
    TicketId::new(slot, place.epoch, place.number)
}

/// What the desk does all the time while it shares lanes.
pub(super) fn chores(desk: &Arc<Desk>) -> Vec<JoinHandle<()>> {
    vec![
        tokio::spawn(watch::watch(desk.clone())),
        tokio::spawn(watch::listen(desk.clone())),
        tokio::spawn(watch::rescue(desk.clone())),
    ]
}

impl Shared {
    /// Over Redis as it is now: it may be away.
    pub(super) async fn open(lanes: SharedLanes) -> Self {
        metrics::gauge!("maitred_process_info", "client" => lanes.client().to_owned()).set(1.0);
        let up = lanes.ping().await;
        if let Err(error) = &up {
            tracing::warn!(%error, "Redis is away: lines are kept in this process until it is back");
        }
        metrics::gauge!("maitred_degraded").set(if up.is_ok() { 0.0 } else { 1.0 });
        Self {
            up: AtomicBool::new(up.is_ok()),
            shut: AtomicBool::new(false),
            gate: RwLock::default(),
            floor: AtomicU32::new(0),
            generation: AtomicU64::new(lanes.generation()),
            raising: tokio::sync::Mutex::default(),
            outboxes: Mutex::default(),
            ready: Ready::new(),
            looks: Mutex::default(),
            slots: Mutex::default(),
            early: Mutex::default(),
            known: Mutex::default(),
            lives: Mutex::default(),
            unsure_until: Mutex::default(),
            alarm: Notify::new(),
            closed: CancellationToken::new(),
            lanes,
        }
    }

    pub(super) fn is_up(&self) -> bool {
        self.up.load(Ordering::Acquire)
    }

    /// Whether a ticket that is nowhere to be found may stand in a line that cannot be asked.
    pub(super) fn is_unsure(&self) -> bool {
        !self.is_up() || lock(&self.unsure_until).is_some_and(|until| Instant::now() < until)
    }

    pub(super) fn gate(&self) -> RwLockReadGuard<'_, ()> {
        self.gate.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The longest line that this process has looked at lately.
    pub(super) fn longest(&self) -> usize {
        let looks = lock(&self.looks);
        looks.values().filter_map(|looked| looked.look.as_ref()).map(|look| look.waiting).max().unwrap_or(0)
    }

    pub(super) fn tidy(&self) {
        lock(&self.slots).retain(|_, (at, _)| at.elapsed() < IDLE);
        lock(&self.looks).retain(|_, looked| looked.at.elapsed() < IDLE);
        lock(&self.known).retain(|_, at| at.elapsed() < IDLE);
        let looked = lock(&self.looks);
        lock(&self.lives).retain(|slot, _| looked.contains_key(slot));
        lock(&self.early).clear();
    }

    /// Takes nobody in any more.
    pub(super) fn shut(&self) {
        self.shut.store(true, Ordering::Release);
    }

    /// Runs no lane any more, once the batches in hand are done.
    pub(super) fn close(&self) {
        self.ready.close();
        self.closed.cancel();
    }

    /// Whether the connection is another than the one for which the floor is good.
    fn has_moved(&self) -> bool {
        self.generation.load(Ordering::Acquire) != self.lanes.generation()
    }

    /// A life of a lane was seen; whether it is another than before.
    fn saw(&self, slot: SlotId, born: u32) -> bool {
        lock(&self.known).insert(slot.venue(), Instant::now());
        lock(&self.lives).insert(slot, born).is_some_and(|before| before != born)
    }
}

impl Desk {
    /// Asks Redis. If it does not answer, lines are kept in this process from now on.
    async fn ask<T>(
        &self,
        shared: &Shared,
        call: impl Future<Output = Result<T, fairlane::Error>>,
    ) -> Result<T, Away> {
        metrics::counter!("maitred_redis_calls_total").increment(1);
        let asked = Instant::now();
        let answer = call.await;
        metrics::histogram!("maitred_redis_seconds").record(asked.elapsed());
        answer.map_err(|error| {
            self.fall(shared, &error);
            Away
        })
    }

    /// Redis is away: whoever waits here stands in lines of this process from now on, in the order they had.
    fn fall(&self, shared: &Shared, error: &fairlane::Error) {
        let gate = shared.gate.write().unwrap_or_else(PoisonError::into_inner);
        if !shared.is_up() {
            return;
        }
        // A new life for the lines here, later than every one before; drawn when somebody enters.
        self.epoch.store(0, Ordering::Release);
        shared.up.store(false, Ordering::Release);
        let mut waiting = self.tickets.undecided();
        waiting.retain(|ticket| ticket.stands_elsewhere());
        waiting.sort_unstable_by_key(|ticket| ticket.id());
        let people = waiting.len();
        waiting.into_iter().for_each(|ticket| self.stand_here(ticket));
        drop(gate);
        metrics::gauge!("maitred_degraded").set(1.0);
        let source = std::error::Error::source(error).map(ToString::to_string);
        tracing::warn!(
            people,
            error = source.unwrap_or_else(|| error.to_string()),
            "Redis is away: lines are kept in this process until it is back"
        );
    }

    fn stand_here(&self, ticket: Arc<Ticket>) {
        let side = side(&ticket.command.action);
        self.lanes.adopt(ticket.id().slot, side, |number| {
            ticket.again.store(true, Ordering::Release);
            ticket.here.store(number, Ordering::Release);
            ticket
        });
    }

    /// Redis may be back: if so, whoever waits here returns to the shared lines.
    async fn rise(&self, shared: &Shared) {
        if shared.lanes.ping().await.is_err() || self.raise(shared).await.is_err() {
            return;
        }
        *lock(&shared.unsure_until) = Some(Instant::now() + UNSURE);
        lock(&shared.looks).clear();
        shared.up.store(true, Ordering::Release);
        metrics::gauge!("maitred_degraded").set(0.0);
        let waiting = self.lanes.take_waiting();
        tracing::info!(people = waiting.len(), "Redis is back: lines are shared again");
        let mut lines: BTreeMap<SlotId, Vec<Arc<Ticket>>> = BTreeMap::new();
        for ticket in waiting {
            ticket.here.store(0, Ordering::Release);
            lines.entry(ticket.id().slot).or_default().push(ticket);
        }
        for (slot, people) in lines {
            self.bring_back(shared, slot, people).await;
        }
    }

    /// Draws an epoch below which no lane may be entered: this process cannot know what happened to Redis meanwhile.
    pub(super) async fn raise(&self, shared: &Shared) -> Result<(), store::Error> {
        let _one_at_a_time = shared.raising.lock().await;
        let generation = shared.lanes.generation();
        let floor = self.draw_epoch(Line::Shared).await?;
        shared.floor.fetch_max(floor, Ordering::AcqRel);
        shared.generation.store(generation, Ordering::Release);
        Ok(())
    }

    /// A ticket that another process took, if it stands in a shared line.
    pub(super) async fn find_shared(&self, shared: &Shared, id: TicketId) -> Option<Arc<Ticket>> {
        if !shared.is_up() {
            return None;
        }
        let found = self.ask(shared, shared.lanes.find(&key(id.slot), place(id))).await.ok()??;
        let ticket = wire::read(id, &found.payload)?;
        // It may have come back from another life of the lane, whose numbers say nothing about it.
        ticket.again.store(true, Ordering::Release);
        let ticket = self.tickets.keep(Arc::new(ticket));
        if found.left {
            self.settle(&ticket, Answer::Left);
        }
        Some(ticket)
    }

    /// Another process hears first how its ticket ended; whoever asks here must not be told less than there.
    pub(super) async fn catch_up(&self, shared: &Shared, ticket: &Arc<Ticket>) -> Result<(), store::Error> {
        let behind = ticket.origin.is_some() && ticket.answer().is_none() && ticket.stands_elsewhere();
        if !behind || !shared.is_up() {
            return Ok(());
        }
        let id = ticket.id();
        match self.ask(shared, shared.lanes.find(&key(id.slot), place(id))).await {
            Ok(Some(found)) if found.left => self.settle(ticket, Answer::Left),
            Ok(None) => self.answer_decided(&mut vec![ticket.clone()]).await?,
            Ok(Some(_)) | Err(Away) => {}
        }
        Ok(())
    }

    pub(super) async fn position_shared(&self, shared: &Shared, ticket: &Ticket) -> Position {
        let id = ticket.id();
        let look = self.look(shared, id.slot).await;
        let here = || self.lanes.overview(&id.slot);
        let Some(look) = look else { return here() };
        if ticket.again.load(Ordering::Acquire) {
            let found = self.ask(shared, shared.lanes.find(&key(id.slot), place(id))).await.ok().flatten();
            if let Some(Found { position: Some(position), .. }) = found {
                return position;
            }
        } else if let Some(position) = look.position(id.number()) {
            return position;
        }
        Position { ahead: 0, waiting: look.waiting + look.deciding, pace: look.pace }
    }

    pub(super) async fn waiting_shared(&self, shared: &Shared, slot: SlotId) -> usize {
        self.look(shared, slot).await.map_or(0, |look| look.waiting + look.deciding)
    }

    pub(super) async fn waiting_for_shared(&self, shared: &Shared, slots: &[SlotId]) -> Vec<usize> {
        let Some(first) = slots.first().filter(|_| shared.is_up()) else { return Vec::new() };
        let lanes: Vec<_> = slots.iter().map(|slot| key(*slot).lane).collect();
        let group = key(*first).group;
        self.ask(shared, shared.lanes.waiting(&group, &lanes)).await.unwrap_or_default()
    }

    pub(super) async fn leave_shared(&self, shared: &Shared, ticket: &Ticket) -> bool {
        let (id, key) = (ticket.id(), key(ticket.id().slot));
        let (guard, claim) = enter::names(ticket.name());
        // The process that took the request hears of it too.
        let said = ticket.origin.as_deref().map(|origin| (origin, wire::said(&[(id, &Answer::Left)])));
        let tell = said.as_ref().map(|(origin, text)| (*origin, text.as_str()));
        let leaving = shared.lanes.leave(&key, place(id), guard.as_deref(), claim.as_deref(), tell);
        self.ask(shared, leaving).await.unwrap_or(false)
    }

    /// The lane as it was a moment ago. However many ask, Redis is asked once in a while.
    async fn look(&self, shared: &Shared, slot: SlotId) -> Option<Arc<Look>> {
        if !shared.is_up() {
            return None;
        }
        {
            let mut looks = lock(&shared.looks);
            if let Some(looked) = looks.get_mut(&slot) {
                if looked.at.elapsed() < FRESH || looked.looking {
                    return looked.look.clone();
                }
                looked.looking = true;
            }
        }
        let look = self.ask(shared, shared.lanes.look(&key(slot))).await.ok()?;
        shared.looked(slot, look)
    }

    /// Waits until everybody who waits here has an answer.
    pub(super) async fn until_decided(&self, deadline: Instant) {
        while self.tickets.open() > 0 && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

impl Shared {
    /// Remembers how a lane was seen.
    fn looked(&self, slot: SlotId, look: Option<Look>) -> Option<Arc<Look>> {
        let look = look.map(Arc::new);
        let looked = Looked { at: Instant::now(), look: look.clone(), looking: false };
        lock(&self.looks).insert(slot, looked);
        look
    }
}
