//! One simulated server process: a runtime of its own with paused time, and the real rooms in it.
//!
//! What its handlers do is what the HTTP handlers do, without HTTP.

use std::sync::Arc;
use std::time::Duration;

use booking::decide::Booking;
use booking::policy::CancelledBy;
use booking::room::{Answer as InRoom, State};
use booking::{
    Action, Outcome, Payment, PaymentId, PaymentStatus, PersonId, Refusal, Reservation, ReservationId, Seat,
    SlotId, Status, TicketId, VenueId, Verdict, What, Won,
};
use fairlane::lane::Bounds;
use fairlane::lanes::SharedLanes;
use maitred::admission::{Admission, Admitted, Keys};
use maitred::clock::Clock;
use maitred::desk::{Answer, Desk, Found, Key, Limits, Settled, Ticket, Turned, Waited, Wish};
use maitred::payments::till::Unrequested;
use maitred::payments::{Payments, Points, Provider, Till};
use maitred::rooms::WaitingRooms;
use maitred::sweeps::{self, Swept};
use maitred::venues::Venues;
use maitred::wallets::Wallets;
use store::Store;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::auditor::{Taken, Told};
use crate::bank::{CARD, Card};
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
    payments: Payments,
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
        payments: Payments::over(CARD, Box::new(Card::new(&hub, index))),
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
    let paying = sweeps::payments::run(app.till(), stopping);
    let swept = Swept { store, admission, desk, venues, rooms, clock, stopping };
    tokio::join!(sweeps::run(swept, || {}), paying);
}

/// What a guest asks.
#[derive(Debug, Clone)]
pub enum Ask {
    /// A new reservation; of these seats, if any are named.
    Book { slot: SlotId, party: u32, seats: Arc<[Seat]>, key: Option<String> },
    /// What has become of a ticket.
    Poll(TicketId),
    /// To leave the line.
    Leave(TicketId),
    /// To wait for a place.
    Join(SlotId, u32),
    /// To wait no longer.
    Unlist(SlotId),
    /// What has been offered to somebody who waits.
    Offer(SlotId),
    /// A place in the waiting room.
    Enter(VenueId),
    /// Whether it is inside.
    Standing(VenueId),
    /// To give it up.
    Exit(VenueId),
    /// To pay with the provider.
    Start(ReservationId),
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
    /// It is noted.
    Noted,
    /// On the waitlist, or in the waiting room.
    Waiting,
    /// Inside.
    Inside,
    /// Not inside the waiting room, and so not to be served.
    Outside,
    /// To be paid at the provider.
    AtProvider(PaymentId),
    /// Not now.
    NotNow,
    /// There is no such thing, or it has ended otherwise.
    Over,
}

impl App {
    /// Answers a guest.
    pub async fn answer(self: Arc<Self>, person: PersonId, ask: Ask) -> Reply {
        match ask {
            Ask::Book { slot, party, seats, key } => match self.gate(person, slot.venue()).await {
                Ok(()) => self.book(person, slot, party, seats, key).await,
                Err(reply) => reply,
            },
            Ask::Join(slot, party) => match self.gate(person, slot.venue()).await {
                Ok(()) => {
                    let offer = maitred::fresh::reservation_id(self.clock.now());
                    let name = "A guest".into();
                    self.list(person, slot, Action::Join { name, party, offer }).await
                }
                Err(reply) => reply,
            },
            Ask::Unlist(slot) => self.list(person, slot, Action::Unlist {}).await,
            Ask::Offer(slot) => self.offered(person, slot).await,
            Ask::Enter(venue) => self.enter(person, venue).await,
            Ask::Standing(venue) => self.standing(person, venue).await,
            Ask::Exit(venue) => match self.rooms.leave(venue, person).await {
                Ok(_) => Reply::Noted,
                Err(_) => Reply::NotNow,
            },
            Ask::Start(id) => self.start(person, id).await,
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
                if let Err(reply) = self.gate_again(person, id).await {
                    return reply;
                }
                let paid = self.manage(person, id, |app, r| (r.slot, Points.begin(r, app.clock.now()))).await;
                if let Reply::Done(paid) = &paid {
                    self.rooms.left(paid.slot.venue());
                }
                paid
            }
            Ask::Cancel(id, by) => {
                self.manage(person, id, move |_, r| (r.slot, Action::Cancel { reservation: id, by })).await
            }
            Ask::Change(id, party, to) => {
                if let Err(reply) = self.gate_again(person, id).await {
                    return reply;
                }
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

    fn till(&self) -> Till<'_> {
        let Self { store, admission, desk, clock, payments, .. } = self;
        Till { store, admission, desk, clock, payments }
    }

    /// What the provider says is brought here; whether it was heard.
    pub async fn hear(&self, payment: PaymentId, what: What, event: &str) -> bool {
        self.till().tell(CARD, payment, what, Some(event)).await.is_ok()
    }

    /// The gate in front of a sale, as HTTP has it, without signatures.
    async fn gate(&self, person: PersonId, venue: VenueId) -> Result<(), Reply> {
        let Some(view) = self.rooms.view(venue).await.map_err(|_| Reply::NotNow)? else { return Ok(()) };
        if !view.opening.terms.enabled {
            return if view.opening.is_open(self.clock.now()) { Ok(()) } else { Err(Reply::NotNow) };
        }
        let place = self.rooms.token(&view, person).await.map_err(|_| Reply::NotNow)?;
        let Some(place) = place else { return Err(Reply::Outside) };
        if !self.rooms.may(&view, &place).await.map_err(|_| Reply::NotNow)? {
            return Err(Reply::Outside);
        }
        let mut hub = lock(&self.hub);
        if hub.rows.rooms.has(&place) != Some(true) {
            hub.auditor.violated(None, format!("g{} was served, and had not been let in", person.0));
        }
        Ok(())
    }

    /// The same for somebody who has a reservation; offers come to people wherever they are.
    async fn gate_again(&self, person: PersonId, id: ReservationId) -> Result<(), Reply> {
        let Ok(Some(reservation)) = self.store.reservation(id).await else { return Err(Reply::NotNow) };
        match reservation.offered {
            true => Ok(()),
            false => self.gate(person, reservation.slot.venue()).await,
        }
    }

    async fn enter(&self, person: PersonId, venue: VenueId) -> Reply {
        let (place, new) = match self.rooms.enter(venue, person).await {
            Ok(InRoom::Issued(place)) => (place, true),
            Ok(InRoom::AlreadyIssued(place)) => (place, false),
            Ok(_) | Err(_) => return Reply::NotNow,
        };
        let mut hub = lock(&self.hub);
        let number = place.number;
        hub.note(None, format!("g{} has number {number:?} at venue {venue}, new: {new}", person.0));
        if hub.rows.rooms.has(&place).is_none() {
            let what = format!("g{} was told of number {number:?}, which is not stored", person.0);
            hub.auditor.violated(None, what);
        }
        if place.state == State::Inside { Reply::Inside } else { Reply::Waiting }
    }

    async fn standing(&self, person: PersonId, venue: VenueId) -> Reply {
        let Ok(Some(view)) = self.rooms.view(venue).await else { return Reply::NotNow };
        match self.rooms.token(&view, person).await {
            Ok(Some(place)) => match place.at(&view.opening.terms, self.clock.now()).state {
                State::Inside => Reply::Inside,
                State::Waiting => Reply::Waiting,
                State::Done | State::Left | State::Lapsed => Reply::Over,
            },
            Ok(None) => Reply::Over,
            Err(_) => Reply::NotNow,
        }
    }

    /// Something about a waitlist.
    async fn list(self: &Arc<Self>, person: PersonId, slot: SlotId, action: Action) -> Reply {
        let invoked = self.now();
        match self.admission.manage(slot, person, action).await {
            Ok(ticket) => {
                self.watch(invoked, &ticket, None);
                self.wait(&ticket, Duration::from_secs(10), None).await
            }
            Err(turned) => self.turned(turned, slot, person),
        }
    }

    async fn offered(&self, person: PersonId, slot: SlotId) -> Reply {
        let Ok(list) = self.store.waitlist(slot).await else { return Reply::NotNow };
        if list.iter().any(|waiting| waiting.person == person) {
            return Reply::Waiting;
        }
        let Ok(own) = self.store.reservations_of(person, None, 100).await else { return Reply::NotNow };
        let offer =
            own.items.into_iter().find(|r| r.slot == slot && r.offered && r.status() == Status::Temporary);
        offer.map_or(Reply::Over, |offer| Reply::Done(Arc::new(offer)))
    }

    /// Begins to pay with the provider, as HTTP does.
    async fn start(self: &Arc<Self>, person: PersonId, id: ReservationId) -> Reply {
        if let Err(reply) = self.gate_again(person, id).await {
            return reply;
        }
        let begun = self
            .manage(person, id, |app, r| {
                let card = Card::new(&app.hub, app.process.0);
                (r.slot, card.begin(r, app.clock.now()))
            })
            .await;
        let Reply::Done(_) = begun else { return begun };
        let Ok(Some(payment)) = self.till().newest(id).await else { return Reply::NotNow };
        match (payment.status, self.till()) {
            (PaymentStatus::Ready, till) => match till.request(&payment).await {
                Ok(payment) => Reply::AtProvider(payment.id),
                Err(Unrequested::Refused | Unrequested::Gone) => Reply::Over,
                Err(_) => Reply::NotNow,
            },
            _ => Reply::AtProvider(payment.id),
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
        seats: Arc<[Seat]>,
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
            payment: if venue.settings.inventory.hall().is_some() {
                Payment::Prepay
            } else {
                Payment::Deposit
            },
            seats: seats.clone(),
            section: None,
            order: Arc::default(),
            note: None,
        };
        let mut body = [0; 32];
        body[..8].copy_from_slice(&slot.to_i64().to_be_bytes());
        body[8..12].copy_from_slice(&party.to_be_bytes());
        for (place, byte) in seats.iter().flat_map(|seat| seat.as_str().bytes()).zip(12..32) {
            body[byte] = place;
        }
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
        let seats = match &ticket.command.action {
            Action::Book(booking) => booking.seats.iter().map(ToString::to_string).collect(),
            _ => Vec::new(),
        };
        let key_of = key.clone();
        let taken =
            Taken { invoked, known, entered_at, process, person, slot, verdict, epoch, key: key_of, seats };
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
            if matches!(&last, Reply::Done(done) if done.refund_due > Won::ZERO) {
                self.payments.wake();
            }
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
        Outcome::Noted => Reply::Noted,
        Outcome::Refused(refusal) => Reply::Refused(*refusal),
    }
}
