//! The rehearsal itself: looks at what is there, lets everybody come in their moment, and looks again afterwards.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Deserialize;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::answer::strange;
use crate::arrivals::Arrivals;
use crate::call::{CALL, call, request};
use crate::connections::{Address, Connections, Whose, trust};
use crate::guest::evening;
use crate::plan::{Plan, Slot, Wish};
use crate::record::{Outcome, Record, Seating};
use crate::report::Report;
use crate::tally::Tally;

/// The access token of a guest, by number.
pub type Tokens = Arc<dyn Fn(u32) -> String + Send + Sync>;

/// Strange answers that are kept to be shown.
const SHOWN: usize = 10;
/// Connections that are opened at the same time before the beginning.
const OPENING: usize = 64;
/// Guests who are looked after at the same time.
const LOOKING: usize = 32;
/// How often somebody is looked at who cannot be, and the pause between.
const TRIES: usize = 3;
const PAUSE: Duration = Duration::from_millis(200);

/// Why there was no rehearsal.
#[derive(Debug, thiserror::Error)]
pub enum Failed {
    /// The server cannot be reached.
    #[error("cannot reach {0} ({1}); check that the server runs there")]
    Unreachable(String, std::io::Error),
    /// This machine does not allow as many connections.
    #[error(
        "this machine allows too few open files for so many connections; raise `ulimit -n`, or lower --connections"
    )]
    TooFewFiles,
    /// There is no such venue.
    #[error("the server has no venue {0}; see GET /api/venues")]
    NoVenue(String),
    /// There is no such slot.
    #[error("{0} cannot be booked; see GET /api/venues/{1}/availability?date=…")]
    NoSlot(Slot, String),
    /// The server does not know the guests.
    #[error(
        "the server does not accept the guests' tokens; make them with its key (--data or --database) or pass --tokens FILE"
    )]
    Strangers,
    /// The server answered something else.
    #[error("the server's answer to {0} was not understood: {1}")]
    Strange(String, String),
}

/// How a venue counts what it sells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// By the head.
    People,
    /// By the reservation: tables, or one party at a time.
    Reservations,
}

/// Everybody, and what they share.
pub(crate) struct Crowd {
    pub plan: Plan,
    /// The plan's slots, and those that only a replayed file names.
    slots: Vec<Slot>,
    shares: Vec<f64>,
    servers: Vec<Arc<Connections>>,
    tokens: Tokens,
    pub tally: Arc<Tally>,
    pub start: Instant,
    /// Names this rehearsal: the same crowd may come twice, and nobody gets an answer of the time before.
    pub run: u64,
    strange: Mutex<Vec<String>>,
}

/// Rehearses, and says how it went.
pub async fn run(plan: Plan, tokens: Tokens, tally: Arc<Tally>) -> Result<Report, Failed> {
    let mut crowd = Crowd::gather(plan, tokens, tally)?;
    let before = crowd.look_around().await?;
    crowd.connect().await?;
    crowd.start = Instant::now();
    let crowd = Arc::new(crowd);
    let mut records = come(&crowd).await;
    let took = crowd.now();
    // Whoever got lost on the way here has no answer either.
    let mut unknown = (crowd.plan.guests as usize).saturating_sub(records.len());
    if crowd.plan.look_after {
        unknown += look_after(&crowd, &mut records).await;
    }
    let strange = std::mem::take(&mut *crowd.strange());
    let mut report = Report::new(&crowd.plan, &crowd.slots, &before, records, strange, took);
    report.exactness.lost_answers += unknown as u64;
    Ok(report)
}

fn unreached(server: &Address, error: std::io::Error) -> Failed {
    // "Too many open files", which says nothing about the server.
    const EMFILE: i32 = 24;
    match error.raw_os_error() {
        Some(EMFILE) => Failed::TooFewFiles,
        _ => Failed::Unreachable(server.url(), error),
    }
}

/// What there was before anybody came.
#[derive(Debug)]
pub(crate) struct Before {
    pub venue: String,
    pub unit: Unit,
    /// What was left of each slot.
    pub remaining: Vec<u32>,
}

impl Crowd {
    pub fn gather(mut plan: Plan, tokens: Tokens, tally: Arc<Tally>) -> Result<Self, Failed> {
        let mut slots = plan.slots.clone();
        if let Arrivals::Replay(arrivals) = &plan.arrivals {
            plan.guests = u32::try_from(arrivals.len()).unwrap_or(u32::MAX);
            for slot in arrivals.iter().filter_map(|arrival| arrival.slot.as_ref()) {
                if !slots.contains(slot) {
                    slots.push(slot.clone());
                }
            }
        }
        let tls = match plan.servers.iter().find(|server| server.tls) {
            Some(server) => Some(trust().map_err(|error| unreached(server, error))?),
            None => None,
        };
        let each = plan.connections / plan.servers.len().max(1);
        let servers =
            plan.servers.iter().map(|server| Arc::new(Connections::new(server.clone(), each, tls.clone())));
        Ok(Self {
            servers: servers.collect(),
            shares: plan.popularity.shares(plan.slots.len()),
            slots,
            plan,
            tokens,
            tally,
            start: Instant::now(),
            run: rand::random(),
            strange: Mutex::default(),
        })
    }

    /// Since the beginning.
    pub fn now(&self) -> Duration {
        self.start.elapsed()
    }

    pub fn slot(&self, slot: usize) -> &Slot {
        &self.slots[slot]
    }

    pub fn token(&self, guest: u32) -> String {
        (self.tokens)(guest)
    }

    pub fn server_of(&self, guest: u32) -> &Connections {
        &self.servers[guest as usize % self.servers.len()]
    }

    /// What a guest is up to; a replayed one does what was recorded.
    pub fn wish(&self, guest: u32) -> Wish {
        let mut wish = self.plan.wish(guest, &self.shares);
        if let Arrivals::Replay(arrivals) = &self.plan.arrivals
            && let Some(arrival) = arrivals.get(guest as usize)
        {
            wish.party = arrival.party.unwrap_or(wish.party);
            let named =
                arrival.slot.as_ref().and_then(|slot| self.slots.iter().position(|other| other == slot));
            wish.slot = named.unwrap_or(wish.slot);
        }
        wish
    }

    /// Keeps what was not understood, to show it.
    pub fn note(&self, text: String) {
        let mut strange = self.strange();
        if strange.len() < SHOWN && !strange.contains(&text) {
            strange.push(text);
        }
    }

    fn strange(&self) -> std::sync::MutexGuard<'_, Vec<String>> {
        self.strange.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the venue sells, and what is left of it.
    async fn look_around(&self) -> Result<Before, Failed> {
        #[derive(Deserialize)]
        struct Venue {
            name: String,
            inventory: String,
            #[serde(default)]
            exclusive: bool,
        }
        #[derive(Deserialize)]
        struct Item {
            time: String,
            remaining: u32,
        }
        #[derive(Deserialize)]
        struct Day {
            items: Vec<Item>,
        }
        let venue = &self.plan.venue;
        let path = format!("/api/venues/{venue}");
        let found: Option<Venue> = self.get(&path, None).await?;
        let found = found.ok_or_else(|| Failed::NoVenue(venue.clone()))?;
        let mut days: std::collections::HashMap<&str, Option<Day>> = Default::default();
        let mut remaining = Vec::with_capacity(self.slots.len());
        for slot in &self.slots {
            if !days.contains_key(slot.date.as_str()) {
                let day = self.get(&format!("{path}/availability?date={}", slot.date), None).await?;
                days.insert(&slot.date, day);
            }
            let items = days.get(slot.date.as_str()).and_then(Option::as_ref).map(|day| &day.items);
            let item = items.into_iter().flatten().find(|item| item.time == slot.time);
            let item = item.ok_or_else(|| Failed::NoSlot(slot.clone(), venue.clone()))?;
            remaining.push(item.remaining);
        }
        if self.plan.look_after {
            let _: Option<List> = self.get("/api/reservations", Some(0)).await?;
        }
        let by_head = !found.exclusive && matches!(found.inventory.as_str(), "places" | "seats");
        let unit = if by_head { Unit::People } else { Unit::Reservations };
        Ok(Before { venue: found.name, unit, remaining })
    }

    /// Something that is there, or not.
    async fn get<T: for<'a> Deserialize<'a>>(
        &self,
        path: &str,
        guest: Option<u32>,
    ) -> Result<Option<T>, Failed> {
        let server = self.server_of(guest.unwrap_or(0));
        let token = guest.map(|guest| self.token(guest));
        let text = request(&server.address.to_string(), token.as_deref(), "GET", path, "", "");
        let unreachable = |error| unreached(&server.address, error);
        let borrowed = server.borrow(Whose::Known).await.map_err(unreachable)?;
        let read = |status, _: Option<u64>, body: &[u8]| (status, body.to_vec());
        let (status, body) = call(borrowed, text, read, CALL).await.map_err(unreachable)?;
        let strange = || Failed::Strange(path.to_owned(), strange(status, &body).into());
        match status {
            404 | 422 => Ok(None),
            401 => Err(Failed::Strangers),
            200 => serde_json::from_slice(&body).map(Some).map_err(|_| strange()),
            _ => Err(strange()),
        }
    }

    /// Opens connections ahead, as many as there are guests, or as are allowed.
    async fn connect(&self) -> Result<(), Failed> {
        let many = (self.plan.guests as usize).min(self.plan.connections) / self.servers.len().max(1);
        let mut opening = JoinSet::new();
        for (server, n) in
            self.servers.iter().flat_map(|server| (0..OPENING).map(move |n| (server.clone(), n)))
        {
            let share = many / OPENING + usize::from(n < many % OPENING);
            opening.spawn(async move {
                let opened = server.open(share).await;
                opened.map_err(|error| unreached(&server.address, error))
            });
        }
        while let Some(opened) = opening.join_next().await {
            opened.unwrap_or(Ok(()))?;
        }
        Ok(())
    }
}

/// Lets everybody come in their moment, and waits until the last one knows.
async fn come(crowd: &Arc<Crowd>) -> Vec<Record> {
    let mut guests = JoinSet::new();
    let mut records = Vec::with_capacity(crowd.plan.guests as usize);
    let moments = crowd.plan.arrivals.moments(crowd.plan.guests, crowd.plan.seed);
    for (moment, number) in moments.zip(0..) {
        // Whoever should have come by now comes at once; the tasks that run meanwhile are not this one's concern.
        if moment > crowd.now() {
            sleep_until(crowd.start + moment).await;
        }
        let crowd = crowd.clone();
        guests.spawn(async move { evening(&crowd, number, moment).await });
        while let Some(Ok(record)) = guests.try_join_next() {
            records.push(record);
        }
    }
    while let Some(ended) = guests.join_next().await {
        records.extend(ended);
    }
    records
}

/// A reservation, as its guest finds it afterwards.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Owned {
    id: String,
    venue_id: String,
    date: String,
    time: String,
    status: String,
    created_at: Option<jiff::Timestamp>,
    expires_at: Option<jiff::Timestamp>,
    table: Option<u32>,
    #[serde(default)]
    seats: Vec<String>,
}

#[derive(Deserialize)]
struct List {
    items: Vec<Owned>,
}

impl Owned {
    fn holds_a_place(&self) -> bool {
        matches!(self.status.as_str(), "TEMPORARY" | "CONFIRMED" | "PREPAY_CONFIRM" | "REFUND_PENDING")
    }
}

/// Looks at what everybody has who was seated, and everybody who does not know. How many could not be looked at.
async fn look_after(crowd: &Arc<Crowd>, records: &mut [Record]) -> usize {
    let next = Arc::new(AtomicU32::new(0));
    let unsure = records.iter().enumerate().filter(|(_, record)| record.outcome != Outcome::Refused);
    let asked: Arc<[(usize, u32)]> = unsure.map(|(n, record)| (n, record.guest)).collect();
    let mut looking = JoinSet::new();
    for _ in 0..LOOKING {
        let (crowd, next, asked) = (crowd.clone(), next.clone(), asked.clone());
        looking.spawn(async move {
            let (mut found, mut failures) = (Vec::new(), 0);
            // A server that answers nobody any more is not asked for everybody.
            while failures < TRIES
                && let Some(&(record, guest)) = asked.get(next.fetch_add(1, Ordering::Relaxed) as usize)
            {
                failures = 0;
                while failures < TRIES {
                    match timeout(CALL, crowd.get::<List>("/api/reservations", Some(guest))).await {
                        Ok(Ok(Some(list))) => {
                            found.push((record, list));
                            break;
                        }
                        _ => failures += 1,
                    }
                    sleep(PAUSE).await;
                }
            }
            found
        });
    }
    let mut looked_at = 0;
    while let Some(found) = looking.join_next().await {
        for (record, list) in found.into_iter().flatten() {
            looked_at += 1;
            let record = &mut records[record];
            let slot = crowd.slot(record.slot as usize);
            found_out(record, list.items, &crowd.plan.venue, slot);
        }
    }
    let unseen = asked.len() - looked_at;
    if unseen > 0 {
        crowd.note(format!("{unseen} guests could not be looked at afterwards"));
    }
    unseen
}

/// What somebody turns out to have.
fn found_out(record: &mut Record, owned: Vec<Owned>, venue: &str, slot: &Slot) {
    let Slot { date, time } = slot;
    let mut here = owned;
    here.retain(|owned| owned.venue_id == venue && owned.date == *date && owned.time == *time);
    if let Some(seating) = &mut record.seating {
        let own = here.iter().find(|owned| *owned.id == *seating.id);
        record.is_there = Some(own.is_some());
        // What was done about it may have been done although its answer was lost.
        if let Some(own) = own {
            seating.paid |= matches!(own.status.as_str(), "CONFIRMED" | "PREPAY_CONFIRM");
            seating.cancelled |= matches!(own.status.as_str(), "CANCELED" | "REFUNDED");
        }
    }
    let over = here.iter().find(|owned| !owned.holds_a_place()).map(|owned| owned.id.clone());
    here.retain(Owned::holds_a_place);
    record.holds = Some(u32::try_from(here.len()).unwrap_or(u32::MAX));
    if record.seating.is_some() {
        return;
    }
    record.seating = match (here.pop(), over) {
        (Some(owned), _) => Some(Box::new(owned.into())),
        // Had a place for a while that nobody waited for: when it was given back is not known.
        (None, Some(id)) => Some(Box::new(Seating { id: id.into(), cancelled: true, ..Seating::default() })),
        (None, None) => None,
    };
}

impl From<Owned> for Seating {
    fn from(owned: Owned) -> Self {
        Self {
            id: owned.id.into(),
            from: owned.created_at.map(|at| at.as_millisecond()),
            until: owned.expires_at.map(|at| at.as_millisecond()),
            table: owned.table,
            seats: owned.seats.into_iter().map(Into::into).collect(),
            ..Self::default()
        }
    }
}
