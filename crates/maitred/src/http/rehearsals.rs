//! A rehearsal at the press of a button, on a demo server only: synthetic guests come over HTTP like anybody else, and the
//! venue's staff watch the board.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use axum::extract::State;
use booking::venue::StartTime;
use booking::{SlotId, Venue, VenueId};
use hyper::StatusCode;
use jiff::ToSpan;
use jiff::civil::Date;
use rehearsal::{Arrivals, Plan, Popularity, Report, Slot, Tally, Waiting};
use serde::{Deserialize, Serialize};
use tokio::task::JoinHandle;
use utoipa::ToSchema;

use super::App;
use super::extract::{Guest, Id, Json};
use super::problem::{Code, Problem, ProblemBody};
use super::reservations::slot;
use super::staff::own_venue;
use crate::synthetic;

/// Guests who come where nobody says how many, and the most that may be sent.
const GUESTS: u32 = 1_000;
/// Over how long they come: long enough to see the line grow and go.
const COMING: Duration = Duration::from_secs(4);
/// How many days are looked through for a slot that is free.
const DAYS: i32 = 14;

/// The rehearsal of this server, if it may have any.
#[derive(Default)]
pub struct Rehearsals {
    /// Where guests find the server; unset where there are no rehearsals.
    server: OnceLock<SocketAddr>,
    latest: Mutex<Option<Latest>>,
}

/// The rehearsal that was started last.
struct Latest {
    venue: VenueId,
    slot: SlotId,
    guests: u32,
    tally: Arc<Tally>,
    ended: Arc<OnceLock<Result<Report, String>>>,
    running: JoinHandle<()>,
}

impl Rehearsals {
    /// From now on staff may rehearse, with guests who come to this address.
    pub fn allow(&self, listening: SocketAddr) {
        let mut server = listening;
        // Listening everywhere is listening here too.
        match server.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => server.set_ip(Ipv4Addr::LOCALHOST.into()),
            IpAddr::V6(ip) if ip.is_unspecified() => server.set_ip(Ipv6Addr::LOCALHOST.into()),
            _ => {}
        }
        // Allowed twice is allowed.
        let _ = self.server.set(server);
    }

    /// Sends everybody home who is still there.
    pub async fn close(&self) {
        let latest = self.latest().take();
        if let Some(latest) = latest {
            latest.running.abort();
            let _ = latest.running.await;
        }
    }

    fn latest(&self) -> std::sync::MutexGuard<'_, Option<Latest>> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn server(&self) -> Result<SocketAddr, Problem> {
        self.server.get().copied().ok_or_else(|| Problem::not_found("rehearsal"))
    }
}

/// Guests to send.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RehearsalRequest {
    /// How many: between 1 and 1,000, which is also what is sent if absent.
    guests: Option<u32>,
    /// For which slot; the first that is wholly free if absent.
    #[schema(example = "2026-12-24")]
    date: Option<String>,
    #[schema(example = "12:00")]
    time: Option<String>,
}

/// A rehearsal, while it goes on and afterwards.
#[derive(Debug, Default, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Rehearsal)]
pub struct RehearsalView {
    /// `ready` where there was none yet, `running`, `over`, or `failed`.
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = Date)]
    date: Option<Date>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, example = "12:00")]
    time: Option<StartTime>,
    guests: u32,
    arrived: u32,
    waiting: u32,
    seated: u32,
    refused: u32,
    gave_up: u32,
    errors: u32,
    /// Answers a second, lately.
    pace: f64,
    /// Milliseconds from coming to knowing.
    p50: f64,
    p99: f64,
    /// Seconds until everybody knew, once it is over.
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds: Option<f64>,
    /// Whether everybody was treated right, once it is over.
    #[serde(skip_serializing_if = "Option::is_none")]
    exact: Option<bool>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
}

impl RehearsalView {
    fn of(latest: &Latest) -> Self {
        let seen = latest.tally.view();
        let view = Self {
            state: "running",
            date: Some(latest.slot.date()),
            time: Some(StartTime(latest.slot.time())),
            guests: latest.guests,
            arrived: seen.arrived,
            waiting: seen.waiting,
            seated: seen.seated,
            refused: seen.refused,
            gave_up: seen.gave_up,
            errors: seen.errors,
            pace: seen.pace,
            p50: seen.p50,
            p99: seen.p99,
            ..Self::default()
        };
        // In this order: its end is told before it ends.
        let finished = latest.running.is_finished();
        match latest.ended.get() {
            // It died.
            None if finished => Self { state: "failed", ..view },
            None => view,
            Some(Ok(report)) => {
                let exact = Some(report.exactness.is_exact());
                Self { state: "over", seconds: Some(report.seconds), exact, ..view }
            }
            Some(Err(why)) => Self { state: "failed", detail: Some(why.clone()), ..view },
        }
    }
}

/// Send synthetic guests at a venue; on a demo server only. They book for real.
#[utoipa::path(post, path = "/api/venues/{id}/rehearsal", operation_id = "rehearse", tag = "staff",
    params(("id" = String, Path)), request_body = RehearsalRequest,
    responses((status = 202, body = RehearsalView), (status = 403, body = ProblemBody), (status = 404, body = ProblemBody),
              (status = 409, body = ProblemBody), (status = 422, body = ProblemBody)))]
pub async fn start(
    State(app): State<Arc<App>>,
    guest: Guest,
    Id(id): Id<VenueId>,
    Json { value: request, .. }: Json<RehearsalRequest>,
) -> Result<(StatusCode, axum::Json<RehearsalView>), Problem> {
    let server = app.rehearsals.server()?;
    let venue = own_venue(&app, &guest, id).await?;
    let guests = request.guests.unwrap_or(GUESTS);
    if !(1..=GUESTS).contains(&guests) {
        return Err(Problem::field("/guests", format!("must be between 1 and {GUESTS}")));
    }
    let slot = match (&request.date, &request.time) {
        (None, None) => free_slot(&app, &venue).await?,
        (day, time) => {
            slot(&app, &venue, day.as_deref().unwrap_or_default(), time.as_deref().unwrap_or_default())
                .map_err(Problem::invalid)?
        }
    };
    let mut latest = app.rehearsals.latest();
    if latest.as_ref().is_some_and(|latest| !latest.running.is_finished()) {
        let (en, ko) = ("A rehearsal is under way; wait until it is over.", "이미 리허설이 진행 중입니다.");
        return Err(Problem::new(Code::RequestInProgress, en, ko));
    }
    let started = latest.insert(begin(&app, server, id, slot, guests));
    Ok((StatusCode::ACCEPTED, axum::Json(RehearsalView::of(started))))
}

/// Lets the guests come.
fn begin(app: &Arc<App>, server: SocketAddr, venue: VenueId, slot: SlotId, guests: u32) -> Latest {
    let (tally, ended) = (Arc::new(Tally::default()), Arc::new(OnceLock::new()));
    let keys = app.clone();
    let tokens = synthetic::tokens(move |claims| keys.signer.sign(claims), guests, app.clock.now());
    let plan = Plan {
        servers: vec![server.into()],
        venue: venue.to_string(),
        slots: vec![Slot { date: slot.date().to_string(), time: StartTime(slot.time()).to_string() }],
        popularity: Popularity::Even,
        arrivals: Arrivals::Over(COMING.mul_f64(f64::from(guests) / f64::from(GUESTS))),
        guests,
        party: 1..=4,
        patience: Duration::from_secs(30),
        abandon: 0.05,
        pay: 0.6,
        cancel: 0.0,
        waiting: Waiting::Listen,
        wait_in_call: 2,
        keys: true,
        look_after: true,
        connections: 200,
        seed: rand::random(),
    };
    let (seen, end) = (tally.clone(), ended.clone());
    let running = tokio::spawn(async move {
        let report = rehearsal::run(plan, tokens, seen).await;
        // Nobody else sets it.
        let _ = end.set(report.map_err(|error| error.to_string()));
    });
    Latest { venue, slot, guests, tally, ended, running }
}

/// The first slot from tomorrow on of which nothing is taken.
async fn free_slot(app: &App, venue: &Venue) -> Result<SlotId, Problem> {
    let now = app.clock.now();
    let today = venue.settings.time_zone.zone().to_datetime(now).date();
    for ahead in 1..=DAYS {
        let day = today.saturating_add(ahead.days());
        let Some((first, last)) = SlotId::day_range(venue.id, day) else { continue };
        let taken = app.store.occupancy(first, last, now).await?;
        let times = venue.times_on(day).iter().filter_map(|&time| venue.slot(day, time, now).ok());
        let is_free = |slot: &SlotId| taken.iter().all(|taken| taken.slot != *slot);
        if let Some(slot) = times.into_iter().find(is_free) {
            return Ok(slot);
        }
    }
    Err(Problem::field("/date", format!("must be given: nothing is wholly free in the next {DAYS} days")))
}

/// How the rehearsal goes, or went; on a demo server only.
#[utoipa::path(get, path = "/api/venues/{id}/rehearsal", operation_id = "rehearsal", tag = "staff",
    params(("id" = String, Path)),
    responses((status = 200, body = RehearsalView), (status = 403, body = ProblemBody), (status = 404, body = ProblemBody)))]
pub async fn look(
    State(app): State<Arc<App>>,
    guest: Guest,
    Id(id): Id<VenueId>,
) -> Result<axum::Json<RehearsalView>, Problem> {
    app.rehearsals.server()?;
    own_venue(&app, &guest, id).await?;
    let latest = app.rehearsals.latest();
    let here = latest.as_ref().filter(|latest| latest.venue == id);
    let nothing = || RehearsalView { state: "ready", guests: GUESTS, ..RehearsalView::default() };
    Ok(axum::Json(here.map_or_else(nothing, RehearsalView::of)))
}
