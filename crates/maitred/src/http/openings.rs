//! When a sale opens, how its waiting room is run, and the draw that anybody can check.

use std::sync::Arc;

use axum::extract::State;
use booking::VenueId;
use booking::room::{Opening, Order, Seed, Terms, entry};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::App;
use super::extract::{Guest, Id, Json, Query};
use super::problem::{Problem, ProblemBody};
use super::queue_tokens::hex;
use super::reservations::{Cursor, venue};
use super::staff::own_venue;
use store::NewOpening;

/// Entries in one part of the list of a draw.
const PART: u32 = 1_000;
/// How far ahead an opening may be.
const FARTHEST: SignedDuration = SignedDuration::from_hours(24 * 366);

/// An opening, as everybody sees it.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Opening)]
pub struct OpeningView {
    #[schema(value_type = String, format = DateTime)]
    opens_at: Timestamp,
    /// How those who came before are ordered: `arrival` or `draw`.
    #[schema(value_type = String)]
    order: Order,
    /// Whether everybody who came before has a number.
    opened: bool,
    waiting_room: WaitingRoomView,
    #[serde(skip_serializing_if = "Option::is_none")]
    draw: Option<DrawView>,
}

/// What a draw is made with.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Draw)]
pub struct DrawView {
    /// SHA-256 of the seed, in hex, shown from the beginning.
    seed_hash: String,
    /// The seed, in hex, once everybody has a number: an entry's lot is SHA-256 of the seed and the entry, the lowest first.
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<String>,
}

/// How a waiting room is run.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = WaitingRoom)]
pub struct WaitingRoomView {
    enabled: bool,
    size: u32,
    idle_seconds: u32,
    total_seconds: u32,
}

impl DrawView {
    /// The secret stays one until everybody has a number.
    pub fn of(opening: &Opening) -> Self {
        let seed = opening.opened.then(|| hex(&opening.seed.0));
        Self { seed_hash: hex(&opening.seed.hash()), seed }
    }
}

impl From<&Opening> for OpeningView {
    fn from(opening: &Opening) -> Self {
        let Terms { enabled, size, idle_seconds, total_seconds } = opening.terms;
        Self {
            opens_at: opening.opens_at,
            order: opening.order,
            opened: opening.opened,
            waiting_room: WaitingRoomView { enabled, size, idle_seconds, total_seconds },
            draw: (opening.order == Order::Draw).then(|| DrawView::of(opening)),
        }
    }
}

/// When a sale opens.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OpeningRequest {
    #[schema(value_type = String, format = DateTime, example = "2026-12-24T11:00:00Z")]
    opens_at: Timestamp,
    /// How those who come before are ordered: `arrival` (if absent) or `draw`.
    #[schema(value_type = Option<String>)]
    order: Option<Order>,
}

fn opening(opens_at: Timestamp, order: Order, terms: Terms) -> NewOpening {
    // Kept to the millisecond.
    let opens_at = Timestamp::from_millisecond(opens_at.as_millisecond()).unwrap_or(opens_at);
    NewOpening { opens_at, order, seed: Seed(rand::random()), terms }
}

/// Set when the sale opens. Numbers begin anew: whoever stands in the room asks again.
#[utoipa::path(put, path = "/api/venues/{id}/opening", tag = "staff", params(("id" = String, Path)),
    request_body = OpeningRequest,
    responses((status = 200, body = OpeningView), (status = 403, body = ProblemBody), (status = 422, body = ProblemBody)))]
pub async fn set_opening(
    State(app): State<Arc<App>>,
    guest: Guest,
    Id(id): Id<VenueId>,
    Json { value: request, .. }: Json<OpeningRequest>,
) -> Result<axum::Json<OpeningView>, Problem> {
    own_venue(&app, &guest, id).await?;
    if request.opens_at.duration_since(app.clock.now()) > FARTHEST {
        return Err(Problem::field("/opensAt", "must be within a year"));
    }
    let new = opening(request.opens_at, request.order.unwrap_or(Order::Arrival), Terms::default());
    let opening = app.store.add_opening(id, new).await?;
    app.rooms.refresh(id).await?;
    Ok(axum::Json(OpeningView::from(&opening)))
}

/// How to run a waiting room; what is left out stays as it is, or takes its default.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WaitingRoomRequest {
    enabled: bool,
    /// How many are inside at once: between 1 and 1,000; 10 by default.
    size: Option<u32>,
    /// How long somebody inside may do nothing: between 1 and 86,400; 180 by default.
    idle_seconds: Option<u32>,
    /// How long somebody may be inside: between 1 and 86,400; 600 by default.
    total_seconds: Option<u32>,
}

impl WaitingRoomRequest {
    fn on(self, base: Terms) -> Result<Terms, Problem> {
        let terms = Terms {
            enabled: self.enabled,
            size: self.size.unwrap_or(base.size),
            idle_seconds: self.idle_seconds.unwrap_or(base.idle_seconds),
            total_seconds: self.total_seconds.unwrap_or(base.total_seconds),
        };
        if !(1..=Terms::MOST).contains(&terms.size) {
            return Err(Problem::field("/size", format!("must be between 1 and {}", Terms::MOST)));
        }
        for (pointer, seconds) in
            [("/idleSeconds", terms.idle_seconds), ("/totalSeconds", terms.total_seconds)]
        {
            if !(1..=86_400).contains(&seconds) {
                return Err(Problem::field(pointer, "must be between 1 and 86,400"));
            }
        }
        Ok(terms)
    }
}

/// Switch the waiting room on or off. Where no opening is set, it is open at once.
#[utoipa::path(put, path = "/api/venues/{id}/waiting-room", tag = "staff", params(("id" = String, Path)),
    request_body = WaitingRoomRequest,
    responses((status = 200, body = OpeningView), (status = 403, body = ProblemBody), (status = 422, body = ProblemBody)))]
pub async fn set_waiting_room(
    State(app): State<Arc<App>>,
    guest: Guest,
    Id(id): Id<VenueId>,
    Json { value: request, .. }: Json<WaitingRoomRequest>,
) -> Result<axum::Json<OpeningView>, Problem> {
    own_venue(&app, &guest, id).await?;
    let before = app.store.opening(id).await?;
    let terms = request.on(before.map(|before| before.terms).unwrap_or_default())?;
    let otherwise = opening(app.clock.now(), Order::Arrival, terms);
    let opening = app.store.set_room(id, terms, otherwise).await?;
    app.rooms.refresh(id).await?;
    app.rooms.nudge(id);
    Ok(axum::Json(OpeningView::from(&opening)))
}

/// A draw, as everybody can check it.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DrawList {
    #[serde(flatten)]
    draw: DrawView,
    /// Which opening it is; it is part of every entry.
    opening: i64,
    /// Who was drawn, in order; empty until the sale opens.
    items: Vec<Drawn>,
    /// Send it as `cursor` for the next part.
    next: Option<String>,
}

/// Somebody who was drawn.
#[derive(Debug, Serialize, ToSchema)]
pub struct Drawn {
    number: u64,
    /// SHA-256 of the opening (8 bytes, big-endian) and the person (16 bytes), in hex.
    entry: String,
}

/// The draw of a venue's opening: the hash of the seed before, the seed and everybody's rank after.
#[utoipa::path(get, path = "/api/venues/{id}/draw", tag = "waiting room", params(("id" = String, Path), Cursor),
    responses((status = 200, body = DrawList), (status = 404, body = ProblemBody), (status = 422, body = ProblemBody)))]
pub async fn draw(
    State(app): State<Arc<App>>,
    Id(id): Id<VenueId>,
    Query(Cursor { cursor }): Query<Cursor>,
) -> Result<axum::Json<DrawList>, Problem> {
    venue(&app, id).await?;
    let after = cursor.map_or(Ok(0), |cursor| cursor.parse());
    let after = after.map_err(|_| Problem::field("?cursor", "must be what `next` said"))?;
    let opening = app.store.opening(id).await?.filter(|opening| opening.order == Order::Draw);
    let opening = opening.ok_or_else(|| Problem::not_found("draw"))?;
    let drawn = if opening.opened { app.store.drawn(opening.id, after, PART).await? } else { vec![] };
    let more = drawn.len() == usize::try_from(PART).unwrap_or(usize::MAX);
    let next = drawn.last().filter(|_| more).map(|(number, _)| number.to_string());
    let item = |(number, person)| Drawn { number, entry: hex(&entry(opening.id, person)) };
    Ok(axum::Json(DrawList {
        draw: DrawView::of(&opening),
        opening: opening.id.0,
        items: drawn.into_iter().map(item).collect(),
        next,
    }))
}
