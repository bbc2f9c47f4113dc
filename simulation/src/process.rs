//! One simulated server process: a runtime of its own with paused time, and the real rooms in it.
//!
//! What its handlers do is what the HTTP handlers do, without HTTP.

use std::sync::Arc;
use std::time::Duration;

use booking::decide::Booking;
use booking::policy::CancelledBy;
use booking::{
    Action, Outcome, Payment, PersonId, Refusal, Reservation, ReservationId, SlotId, Status, TicketId,
    Verdict, Won,
};
use fairlane::lane::Bounds;
use fairlane::lanes::SharedLanes;
use maitred::admission::{Admission, Admitted, Keys};
use maitred::clock::Clock;
use maitred::desk::{Answer, Desk, Found, Key, Limits, Settled, Ticket, Turned, Waited, Wish};
use maitred::rooms::WaitingRooms;
use maitred::sweeps::{self, Swept};
use maitred::venues::Venues;
use maitred::wallets::Wallets;
use store::Store;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::auditor::{Taken, Told};
use crate::hub::{Shared, lock};
use crate::lanes::Lanes;
use crate::rows::Truth;
use crate::swarm::Swarm;

/// What handlers work with.
pub struct App {
    hub: Shared,
    process: (usize, u32),
    store: Arc<Store>,
    admission: Admission,
    /// The desk.
    pub desk: Arc<Desk>,
    venues: Arc<Venues>,
    wallets: Arc<Wallets>,
    rooms: Arc<WaitingRooms>,
    clock: Clock,
    stopping: CancellationToken,
}

/// A process that runs.
pub struct Process {
    runtime: tokio::runtime::Runtime,
    began: Instant,
    /// When it began, in µs of the world.
    since: u64,
}

fn runtime() -> tokio::runtime::Runtime {
    let built = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    built.unwrap_or_else(|error| panic!("a runtime could not be made: {error}"))
}

impl Process {
    /// A runtime in which nothing runs yet.
    pub fn empty(now: u64) -> Self {
        let runtime = runtime();
        let began = runtime.block_on(async { Instant::now() });
        Self { runtime, began, since: now }
    }

    /// Starts a server process.
    pub fn start(hub: &Shared, index: usize, swarm: &Swarm) -> Self {
        let process = {
            let mut hub = lock(hub);
            let (now, seat) = (hub.now, &mut hub.seats[index]);
            seat.life += 1;
            let process = Self::empty(now);
            seat.handle = Some(process.runtime.handle().clone());
            process
        };
        process.runtime.spawn(serve(hub.clone(), index, swarm.clone()));
        process
    }

    /// Where its tasks run.
    pub fn handle(&self) -> &tokio::runtime::Handle {
        self.runtime.handle()
    }

    /// Lets it run until this time of the world.
    pub fn run_until(&self, now: u64) {
        let until = self.began + Duration::from_micros(now - self.since);
        self.runtime.block_on(async { tokio::time::sleep_until(until).await });
    }

    /// It was asleep until now: its clock jumps, and whatever has come meanwhile is there.
    pub fn wake(&self, now: u64) {
        let until = self.began + Duration::from_micros(now - self.since);
        self.runtime.block_on(async {
            for _ in 0..20 {
                tokio::task::yield_now().await;
            }
            let asleep = until.saturating_duration_since(Instant::now());
            tokio::time::advance(asleep).await;
        });
    }
}

async fn serve(hub: Shared, index: usize, swarm: Swarm) {
    let (life, clock) = {
        let hub = lock(&hub);
        (hub.seats[index].life, Clock::Set(hub.seats[index].clock.clone()))
    };
    let store = Arc::new(Store::over(Box::new(Truth::new(&hub, index))));
    let venues = Arc::new(Venues::new(store.clone()));
    let keys = Arc::new(Keys::default());
    let bounds = Bounds { lane: swarm.bound, total: 10_000, batch: swarm.batch };
    let limits = Limits { bounds, runners: swarm.runners };
    let lanes = Arc::new(Lanes::new(&hub, index, life));
    let (desk, _runners) = loop {
        let shared = swarm.redis.then(|| SharedLanes::over(lanes.clone()));
        let desk =
            Desk::open(store.clone(), venues.clone(), keys.clone(), clock.clone(), limits, shared).await;
        match desk {
            Ok(desk) => break desk,
            Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
        }
    };
    let (wallets, _cashiers) = Wallets::open(store.clone(), clock.clone(), bounds);
    let (rooms, _ushers) = WaitingRooms::open(store.clone(), clock.clone(), bounds);
    let app = Arc::new(App {
        wallets,
        rooms,
        hub: hub.clone(),
        process: (index, life),
        admission: Admission::new(desk.clone(), store.clone(), keys),
        store,
        desk,
        venues,
        clock,
        stopping: CancellationToken::new(),
    });
    {
        let mut hub = lock(&hub);
        hub.seats[index].app = Some(app.clone());
        hub.note(None, format!("p{index}.{life} is up"));
    }
    let App { store, admission, desk, venues, rooms, clock, stopping, .. } = &*app;
    sweeps::run(Swept { store, admission, desk, venues, rooms, clock, stopping }, || {}).await;
}

/// What a guest asks.
#[derive(Debug, Clone)]
pub enum Ask {
    /// A new reservation.
    Book { slot: SlotId, party: u32, key: Option<String> },
    /// What has become of a ticket.
    Poll(TicketId),
    /// To leave the line.
    Leave(TicketId),
    /// To pay.
    Pay(ReservationId),
    /// To cancel.
    Cancel(ReservationId, CancelledBy),
    /// To come with another party, or to another slot.
    Change(ReservationId, u32, Option<SlotId>),
    /// Staff: the guests came, or did not.
    Close(ReservationId, bool),
    /// Staff: the refund is handed out.
    Refund(ReservationId),
    /// To buy points.
    Charge(i64, String),
}

/// What a guest is answered.
#[derive(Debug, Clone)]
pub enum Reply {
    /// Done.
    Done(Arc<Reservation>),
    /// Refused, for this reason.
    Refused(Refusal),
    /// In line.
    InLine(TicketId),
    /// Something else is under way for the same person.
    InProgress(TicketId),
    /// Not now.
    NotNow,
    /// There is no such thing, or it has ended otherwise.
    Over,
}

impl App {
    /// Answers a guest.
    pub async fn answer(self: Arc<Self>, person: PersonId, ask: Ask) -> Reply {
        match ask {
            Ask::Book { slot, party, key } => self.book(person, slot, party, key).await,
            Ask::Poll(ticket) => self.poll(ticket).await,
            Ask::Leave(ticket) => self.leave(ticket).await,
            Ask::Charge(amount, key) => {
                let charged = self.wallets.charge(person, Won(amount), Some(key.clone())).await;
                if charged.is_err() {
                    return Reply::NotNow;
                }
                let mut hub = lock(&self.hub);
                if !hub.rows.has_charge(person, &key) {
                    hub.auditor
                        .violated(None, format!("g{} was told of a charge that is not stored", person.0));
                }
                Reply::Over
            }
            Ask::Pay(id) => {
                self.manage(person, id, |app, r| {
                    let now = app.clock.now();
                    let late = r.status() == Status::Expired || r.has_expired(now);
                    match late {
                        false => (r.slot, Action::Pay { reservation: id }),
                        true => {
                            let afresh = maitred::fresh::reservation_id(now);
                            (r.slot, Action::Reseat { reservation: id, afresh })
                        }
                    }
                })
                .await
            }
            Ask::Cancel(id, by) => {
                self.manage(person, id, move |_, r| (r.slot, Action::Cancel { reservation: id, by })).await
            }
            Ask::Change(id, party, to) => {
                self.manage(person, id, move |_, r| match to {
                    Some(to) if to != r.slot => (to, Action::Move { reservation: id, party }),
                    _ => (r.slot, Action::Change { reservation: id, party }),
                })
                .await
            }
            Ask::Close(id, came) => {
                self.manage(person, id, move |_, r| match came {
                    true => (r.slot, Action::Complete { reservation: id }),
                    false => (r.slot, Action::NoShow { reservation: id }),
                })
                .await
            }
            Ask::Refund(id) => {
                self.manage(person, id, move |_, r| (r.slot, Action::Refund { reservation: id })).await
            }
        }
    }

    fn now(&self) -> u64 {
        lock(&self.hub).now
    }

    async fn book(
        self: &Arc<Self>,
        person: PersonId,
        slot: SlotId,
        party: u32,
        key: Option<String>,
    ) -> Reply {
        let invoked = self.now();
        let venue = match self.venues.get(slot.venue()).await {
            Ok(Some(venue)) => venue,
            _ => return Reply::NotNow,
        };
        let booking = Booking {
            id: maitred::fresh::reservation_id(self.clock.now()),
            name: "A guest".into(),
            party,
            payment: Payment::Deposit,
            seats: Arc::default(),
            section: None,
            order: Arc::default(),
            note: None,
        };
        let mut body = [0; 32];
        body[..8].copy_from_slice(&slot.to_i64().to_be_bytes());
        body[8..12].copy_from_slice(&party.to_be_bytes());
        let named = key.as_ref().map(|key| Key { text: key.as_str().into(), body });
        let rate = venue.settings.requests_per_second;
        let wish = Wish { slot, person, action: Action::Book(Box::new(booking)), key: named, rate };
        let key = key.map(|key| (person.0, key));
        match self.admission.book(wish).await {
            Ok(Admitted::InLine(ticket)) => {
                self.watch(invoked, &ticket, key.clone());
                self.wait(&ticket, Duration::from_secs(2), key).await
            }
            Ok(Admitted::Before(ticket)) => self.find(ticket, key).await,
            Err(turned) => self.turned(turned, slot, person),
        }
    }

    fn turned(&self, turned: Turned, slot: SlotId, person: PersonId) -> Reply {
        lock(&self.hub).note(Some(slot.to_i64()), format!("g{} is turned away: {turned}", person.0));
        match turned {
            Turned::InProgress(ticket) => Reply::InProgress(ticket),
            _ => Reply::NotNow,
        }
    }

    /// Whoever has a place is followed to its end, whether or not the guest comes back.
    fn watch(self: &Arc<Self>, invoked: u64, ticket: &Arc<Ticket>, key: Option<(u128, String)>) {
        let id = ticket.id();
        let mut hub = lock(&self.hub);
        let known = hub.now;
        let verdict = ticket.command.action.verdict().as_str();
        let person = ticket.command.person.0;
        let (slot, epoch) = (id.slot.to_i64(), id.epoch());
        hub.note(
            Some(slot),
            format!("p{} has {verdict} of g{person} in line as #{epoch}.{}", self.process.0, id.number()),
        );
        let entered_at = ticket.command.entered_at.as_millisecond();
        let process = self.process;
        let taken =
            Taken { invoked, known, entered_at, process, person, slot, verdict, epoch, key: key.clone() };
        hub.auditor.in_line(id.to_u128(), taken);
        drop(hub);
        let (app, ticket) = (self.clone(), ticket.clone());
        tokio::spawn(async move {
            // Stalled callers are let go; the answer comes all the same.
            while ticket.answer().is_none() {
                ticket.changed_within(Duration::from_secs(1)).await;
            }
            if let Some(answer) = ticket.answer() {
                app.tell(&ticket, answer, key);
            }
        });
    }

    async fn wait(&self, ticket: &Arc<Ticket>, patience: Duration, key: Option<(u128, String)>) -> Reply {
        match ticket.wait(patience).await {
            Waited::Answered(answer) => self.tell(ticket, answer, key),
            Waited::Stalled | Waited::StillWaiting => Reply::InLine(ticket.id()),
        }
    }

    /// An answer leaves this process.
    fn tell(&self, ticket: &Ticket, answer: &Answer, key: Option<(u128, String)>) -> Reply {
        let slot = ticket.id().slot.to_i64();
        let (told, reply) = match answer {
            Answer::Decided(settled) => (told(settled), reply(settled)),
            Answer::Left => (Told::Left, Reply::Over),
            Answer::KeyMismatch => (Told::KeyMismatch, Reply::Over),
            Answer::Failed => (Told::Failed, Reply::NotNow),
        };
        lock(&self.hub).auditor.told(ticket.id().to_u128(), slot, told, key);
        reply
    }

    async fn poll(&self, ticket: TicketId) -> Reply {
        self.find(ticket, None).await
    }

    async fn find(&self, id: TicketId, key: Option<(u128, String)>) -> Reply {
        match self.desk.find(id).await {
            Ok(Some(Found::InMemory(ticket))) => self.wait(&ticket, Duration::from_secs(1), key).await,
            Ok(Some(Found::InLog(logged))) => match self.desk.recall(logged).await {
                Ok(settled) => {
                    let mut hub = lock(&self.hub);
                    hub.auditor.told(id.to_u128(), id.slot.to_i64(), told(&settled), key);
                    reply(&settled)
                }
                Err(_) => Reply::NotNow,
            },
            Ok(Some(Found::Unknown)) | Err(_) => Reply::NotNow,
            Ok(None) => Reply::Over,
        }
    }

    async fn leave(&self, id: TicketId) -> Reply {
        let Ok(Some(Found::InMemory(ticket))) = self.desk.find(id).await else { return Reply::NotNow };
        if self.desk.leave(&ticket).await {
            let answer = ticket.answer().cloned().unwrap_or(Answer::Left);
            return self.tell(&ticket, &answer, None);
        }
        self.wait(&ticket, Duration::from_secs(1), None).await
    }

    /// As the handlers of HTTP do it: a reservation that moved or ran out meanwhile is looked at again.
    async fn manage(
        self: &Arc<Self>,
        person: PersonId,
        id: ReservationId,
        wanted: impl Fn(&Self, &Reservation) -> (SlotId, Action),
    ) -> Reply {
        let mut last = Reply::NotNow;
        for _ in 0..4 {
            let invoked = self.now();
            let Ok(Some(reservation)) = self.store.reservation(id).await else { return Reply::NotNow };
            let (slot, action) = wanted(self, &reservation);
            let verdict = action.verdict();
            let ticket = match self.admission.manage(slot, person, action).await {
                Ok(ticket) => ticket,
                Err(turned) => return self.turned(turned, slot, person),
            };
            self.watch(invoked, &ticket, None);
            last = self.wait(&ticket, Duration::from_secs(10), None).await;
            let again = match &last {
                Reply::Refused(Refusal::Elsewhere) => true,
                Reply::Refused(Refusal::IllegalTransition { from: Status::Expired, .. }) => {
                    verdict == Verdict::Pay
                }
                _ => false,
            };
            if !again {
                break;
            }
        }
        last
    }
}

fn told(settled: &Settled) -> Told {
    let decision = &settled.decision;
    let (refused, reservation) = match &settled.outcome {
        Outcome::Done(reservation) => (None, Some(reservation.id.0)),
        Outcome::Noted => (None, None),
        Outcome::Refused(refusal) => (Some(format!("{refusal:?}")), None),
    };
    let ticket = decision.ticket.map_or(0, TicketId::to_u128);
    Told::Decided { ticket, reservation, refused, batch: settled.batch }
}

fn reply(settled: &Settled) -> Reply {
    match &settled.outcome {
        Outcome::Done(reservation) => Reply::Done(reservation.clone()),
        Outcome::Noted => Reply::Over,
        Outcome::Refused(refusal) => Reply::Refused(*refusal),
    }
}
