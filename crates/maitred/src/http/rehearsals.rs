//! A rehearsal at the press of a button, on a demo server only, for the venue's staff who watch the board.

use std::sync::Arc;

use axum::extract::State;
use booking::venue::StartTime;
use booking::{SlotId, Venue, VenueId};
use hyper::StatusCode;
use jiff::ToSpan;
use jiff::civil::Date;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::App;
use super::extract::{Guest, Id, Json};
use super::problem::{Code, Problem, ProblemBody};
use super::reservations::slot;
use super::staff::own_venue;
use crate::rehearsals::{Latest, MOST, Standing, UnderWay};
use crate::synthetic;

/// How many days are looked through for a slot that is free.
const DAYS: i32 = 14;

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
        match latest.standing() {
            Standing::Running => view,
            Standing::Over(report) => {
                let exact = Some(report.exactness.is_exact());
                Self { state: "over", seconds: Some(report.seconds), exact, ..view }
            }
            Standing::Failed(why) => Self { state: "failed", detail: why.map(str::to_owned), ..view },
        }
    }
}

/// Whether there are rehearsals here.
fn allowed(app: &App) -> Result<(), Problem> {
    if app.rehearsals.are_allowed() { Ok(()) } else { Err(Problem::not_found("rehearsal")) }
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
    allowed(&app)?;
    let venue = own_venue(&app, &guest, id).await?;
    let guests = request.guests.unwrap_or(MOST);
    if !(1..=MOST).contains(&guests) {
        return Err(Problem::field("/guests", format!("must be between 1 and {MOST}")));
    }
    let slot = match (&request.date, &request.time) {
        (None, None) => free_slot(&app, &venue).await?,
        (day, time) => {
            slot(&app, &venue, day.as_deref().unwrap_or_default(), time.as_deref().unwrap_or_default())
                .map_err(Problem::invalid)?
        }
    };
    let keys = app.clone();
    let tokens = synthetic::tokens(move |claims| keys.signer.sign(claims), guests, app.clock.now());
    let started = app.rehearsals.start(id, slot, guests, tokens).map_err(|UnderWay| {
        let (en, ko) = ("A rehearsal is under way; wait until it is over.", "이미 리허설이 진행 중입니다.");
        Problem::new(Code::RequestInProgress, en, ko)
    })?;
    Ok((StatusCode::ACCEPTED, axum::Json(RehearsalView::of(&started))))
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
    allowed(&app)?;
    own_venue(&app, &guest, id).await?;
    let here = app.rehearsals.latest().filter(|latest| latest.venue == id);
    let nothing = || RehearsalView { state: "ready", guests: MOST, ..RehearsalView::default() };
    Ok(axum::Json(here.as_ref().map_or_else(nothing, RehearsalView::of)))
}
