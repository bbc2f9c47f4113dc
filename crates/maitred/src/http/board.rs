//! The live board: how a venue is doing at this moment, for its staff. Watched during a rush, so it costs little: a board is
//! put together once a second at most, however many watch it.

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use booking::venue::StartTime;
use booking::{Inventory, SlotId, Venue, VenueId};
use futures_util::Stream;
use jiff::civil::Date;
use jiff::{Timestamp, ToSpan};
use serde::Serialize;
use store::Occupancy;
use tokio::time::Instant;
use utoipa::ToSchema;

use super::App;
use super::extract::{Guest, Id};
use super::problem::{Problem, ProblemBody};
use super::reservations::venue;

/// How often watchers hear something.
const BEAT: Duration = Duration::from_secs(1);
/// Seconds over which the pace is taken.
const PACE: usize = 5;
/// Slots that a board shows at most.
const SHOWN: usize = 24;
/// Boards that are kept at most; further ones are put together for everybody who asks.
const KEPT: usize = 1_024;

/// A venue at this moment.
#[derive(Debug, Clone, Default, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Board {
    #[schema(value_type = String, format = DateTime)]
    at: Timestamp,
    /// Absent where it is about several venues.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    venue_id: Option<VenueId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// People in line.
    waiting: usize,
    /// Answers a second, over the last five.
    pace: f64,
    /// Places that are paid, from today on.
    sold: u32,
    /// Places that wait for their payment.
    held: u32,
    latency: Latency,
    /// The last minute, second by second, the oldest first; the last one is not over yet.
    seconds: Vec<SecondView>,
    /// The slots for which people wait, then those of which something is taken.
    slots: Vec<SlotBoard>,
}

/// How long people waited for their answers in the last minute, in milliseconds.
#[derive(Debug, Clone, Copy, Default, Serialize, ToSchema)]
pub struct Latency {
    p50: f64,
    p95: f64,
    p99: f64,
}

/// What was decided in a second.
#[derive(Debug, Clone, Copy, Default, Serialize, ToSchema)]
#[schema(as = BoardSecond)]
pub struct SecondView {
    seated: u32,
    refused: u32,
    left: u32,
}

/// A slot at this moment.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct SlotBoard {
    #[schema(value_type = String, format = Date)]
    date: Date,
    #[schema(value_type = String, example = "12:00")]
    time: StartTime,
    capacity: u32,
    sold: u32,
    held: u32,
    waiting: usize,
}

/// Several venues at this moment.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Overview {
    /// All of them together.
    total: Board,
    venues: Vec<Board>,
}

/// Boards as they were a moment ago.
#[derive(Default)]
pub struct Boards(Mutex<HashMap<VenueId, (Instant, Arc<Board>)>>);

impl Boards {
    async fn of(&self, app: &App, venue: &Venue) -> Result<Arc<Board>, Problem> {
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = lock().get(&venue.id).cloned();
        // Slightly less than a beat, so that a watcher who comes every beat never hears the same twice.
        if let Some((_, board)) = kept.filter(|(at, _)| at.elapsed() < BEAT * 9 / 10) {
            return Ok(board);
        }
        let board = Arc::new(look(app, venue).await?);
        let mut kept = lock();
        kept.retain(|_, (at, _)| at.elapsed() < BEAT);
        if kept.len() < KEPT {
            kept.insert(venue.id, (Instant::now(), board.clone()));
        }
        Ok(board)
    }
}

/// Puts a board together.
async fn look(app: &App, venue: &Venue) -> Result<Board, Problem> {
    let now = app.clock.now();
    let beat = app.desk.beat(venue.id);
    let today = venue.settings.time_zone.zone().to_datetime(now).date();
    let last = today.saturating_add(i32::from(venue.settings.book_ahead_days).days());
    let mut slots: BTreeMap<SlotId, SlotBoard> = BTreeMap::new();
    let capacity = venue.settings.inventory.capacity();
    let blank = |slot: SlotId| SlotBoard {
        date: slot.date(),
        time: StartTime(slot.time()),
        capacity,
        sold: 0,
        held: 0,
        waiting: 0,
    };
    if let (Some((from, _)), Some((_, to))) =
        (SlotId::day_range(venue.id, today), SlotId::day_range(venue.id, last))
    {
        for taken in app.store.occupancy(from, to, now).await? {
            let (sold, held) = shares(&venue.settings.inventory, &taken);
            slots.insert(taken.slot, SlotBoard { sold, held, ..blank(taken.slot) });
        }
    }
    let waiting = app.desk.waiting_for(&beat.slots).await;
    for (slot, waiting) in beat.slots.iter().zip(waiting) {
        slots.entry(*slot).or_insert_with(|| blank(*slot)).waiting = waiting;
    }
    let mut shown: Vec<_> = slots.into_values().collect();
    let (sold, held) = shown.iter().fold((0, 0), |(sold, held), slot| (sold + slot.sold, held + slot.held));
    let waiting = shown.iter().map(|slot| slot.waiting).sum();
    shown.retain(|slot| slot.waiting > 0 || slot.sold + slot.held > 0);
    shown.sort_by_key(|slot| (std::cmp::Reverse(slot.waiting), slot.date, slot.time));
    shown.truncate(SHOWN);
    let seconds: Vec<_> = beat
        .seconds
        .iter()
        .map(|second| SecondView { seated: second.seated, refused: second.refused, left: second.left })
        .collect();
    Ok(Board {
        at: now,
        venue_id: Some(venue.id),
        name: Some(venue.settings.name.clone()),
        waiting,
        pace: pace(&seconds),
        sold,
        held,
        latency: Latency::of(&beat.waits),
        seconds,
        slots: shown,
    })
}

/// What of a slot is paid and what waits for its payment, in the unit in which it is booked.
fn shares(inventory: &Inventory, taken: &Occupancy) -> (u32, u32) {
    match inventory {
        Inventory::Places { .. } | Inventory::Seats { .. } => {
            (taken.people.saturating_sub(taken.held_people), taken.held_people)
        }
        Inventory::Exclusive | Inventory::Tables { .. } => {
            (taken.reservations.saturating_sub(taken.held_reservations), taken.held_reservations)
        }
    }
}

/// Answers a second, over the last few that are over.
fn pace(seconds: &[SecondView]) -> f64 {
    let over = &seconds[..seconds.len().saturating_sub(1)];
    let counted = &over[over.len().saturating_sub(PACE)..];
    let answers: u32 = counted.iter().map(|second| second.seated + second.refused).sum();
    if counted.is_empty() { 0.0 } else { f64::from(answers) / PACE as f64 }
}

impl Latency {
    /// Percentiles of these, which ascend.
    fn of(waits: &[Duration]) -> Self {
        let at = |hundredths: usize| {
            let index = (waits.len() * hundredths / 100).min(waits.len().saturating_sub(1));
            waits.get(index).map_or(0.0, |wait| (wait.as_secs_f64() * 100_000.0).round() / 100.0)
        };
        Self { p50: at(50), p95: at(95), p99: at(99) }
    }
}

/// A venue that this person runs.
async fn own(app: &App, guest: &Guest, id: VenueId) -> Result<Arc<Venue>, Problem> {
    let venue = venue(app, id).await?;
    if venue.is_staff(guest.id) { Ok(venue) } else { Err(Problem::forbidden()) }
}

/// How a venue is doing.
#[utoipa::path(get, path = "/api/venues/{id}/board", operation_id = "board", tag = "staff", params(("id" = String, Path)),
    responses((status = 200, body = Board), (status = 403, body = ProblemBody)))]
pub async fn one(
    State(app): State<Arc<App>>,
    guest: Guest,
    Id(id): Id<VenueId>,
) -> Result<axum::Json<Board>, Problem> {
    let venue = own(&app, &guest, id).await?;
    Ok(axum::Json(Board::clone(&*app.boards.of(&app, &venue).await?)))
}

/// Watch how a venue is doing: a `board` every second.
#[utoipa::path(get, path = "/api/venues/{id}/board/events", operation_id = "board_events", tag = "staff",
    params(("id" = String, Path)),
    responses((status = 200, content_type = "text/event-stream", body = Board), (status = 403, body = ProblemBody)))]
pub async fn events(
    State(app): State<Arc<App>>,
    guest: Guest,
    Id(id): Id<VenueId>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Problem> {
    own(&app, &guest, id).await?;
    Ok(every_beat(app, move |app| async move {
        let venue = app.venues.get(id).await.ok().flatten()?;
        let board = app.boards.of(&app, &venue).await.ok()?;
        serde_json::to_string(&*board).ok()
    }))
}

/// The venues that somebody runs, each and together.
async fn overview(app: &App, guest: &Guest) -> Result<Overview, Problem> {
    let all = app.store.venues().await?;
    let mut venues = Vec::new();
    for venue in all.iter().filter(|venue| venue.is_staff(guest.id)) {
        venues.push(Board::clone(&*app.boards.of(app, venue).await?));
    }
    Ok(Overview { total: together(&venues, app.clock.now()), venues })
}

/// Several boards as one. Percentiles cannot be added up: the worst of them is told.
fn together(boards: &[Board], at: Timestamp) -> Board {
    let mut total = Board { at, ..Board::default() };
    for board in boards {
        total.waiting += board.waiting;
        total.pace += board.pace;
        total.sold += board.sold;
        total.held += board.held;
        let (worst, other) = (&mut total.latency, board.latency);
        *worst = Latency {
            p50: worst.p50.max(other.p50),
            p95: worst.p95.max(other.p95),
            p99: worst.p99.max(other.p99),
        };
        total.seconds.resize(board.seconds.len().max(total.seconds.len()), SecondView::default());
        for (sum, second) in total.seconds.iter_mut().zip(&board.seconds) {
            sum.seated += second.seated;
            sum.refused += second.refused;
            sum.left += second.left;
        }
    }
    total
}

/// How the venues are doing that one runs.
#[utoipa::path(get, path = "/api/board", operation_id = "overview", tag = "staff",
    responses((status = 200, body = Overview), (status = 401, body = ProblemBody)))]
pub async fn all(State(app): State<Arc<App>>, guest: Guest) -> Result<axum::Json<Overview>, Problem> {
    Ok(axum::Json(overview(&app, &guest).await?))
}

/// Watch the venues that one runs: a `board` every second.
#[utoipa::path(get, path = "/api/board/events", operation_id = "overview_events", tag = "staff",
    responses((status = 200, content_type = "text/event-stream", body = Overview), (status = 401, body = ProblemBody)))]
pub async fn all_events(
    State(app): State<Arc<App>>,
    guest: Guest,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    every_beat(app, move |app| {
        let guest = guest.clone();
        async move { serde_json::to_string(&overview(&app, &guest).await.ok()?).ok() }
    })
}

/// Says something every beat, until the server stops or there is nothing to say.
fn every_beat<F, R>(app: Arc<App>, say: F) -> Sse<impl Stream<Item = Result<Event, Infallible>>>
where
    F: Fn(Arc<App>) -> R + Clone + Send + 'static,
    R: Future<Output = Option<String>> + Send,
{
    let stream = futures_util::stream::unfold(true, move |first| {
        let (app, say) = (app.clone(), say.clone());
        async move {
            if !first {
                tokio::select! {
                    () = app.stopping.cancelled() => return None,
                    () = tokio::time::sleep(BEAT) => {}
                }
            }
            let said = say(app).await?;
            Some((Ok(Event::default().event("board").data(said)), false))
        }
    });
    Sse::new(stream).keep_alive(KeepAlive::default())
}
