//! The part of maitred's HTTP contract that the race uses, over the row lock.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use axum::extract::{FromRequestParts, Path, Query, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use booking::{PersonId, ReservationId, SlotId, VenueId};
use hyper::StatusCode;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE};
use hyper::http::request::Parts;
use jiff::civil::{Date, Time};
use serde::Deserialize;
use serde_json::{Value, json};

use super::Desk;
use super::sql::Booked;
use crate::rows::scattered;

/// The routes.
pub(super) fn router(desk: Arc<Desk>) -> Router {
    Router::new()
        .route("/api/reservations", post(book).get(own))
        .route("/api/reservations/{id}/payment", post(pay))
        .route("/api/reservations/{id}/cancel", post(cancel))
        .route("/api/wallet/charges", post(charge))
        .route("/api/venues/{id}", get(venue))
        .route("/api/venues/{id}/availability", get(availability))
        .route("/health/ready", get(ready))
        .with_state(desk)
}

/// Whoever the bearer's token stands for.
struct Guest(PersonId);

impl<S: Sync> FromRequestParts<S> for Guest {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let token =
            parts.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
        let token = token.ok_or_else(|| Problem::new(StatusCode::UNAUTHORIZED, "unauthenticated"))?;
        let mut hasher = DefaultHasher::new();
        token.hash(&mut hasher);
        Ok(Self(PersonId(scattered(hasher.finish()))))
    }
}

/// Every answer that is not a success.
struct Problem(StatusCode, Value);

impl Problem {
    fn new(status: StatusCode, code: &'static str) -> Self {
        Self(status, json!({ "type": "about:blank", "status": status.as_u16(), "code": code }))
    }
}

impl<E: std::fmt::Display> From<E> for Problem {
    fn from(error: E) -> Self {
        eprintln!("row lock: {error}");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal")
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        (self.0, [(CONTENT_TYPE, "application/problem+json")], self.1.to_string()).into_response()
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Wish {
    venue_id: String,
    date: Date,
    time: String,
    party_size: u32,
    #[serde(rename = "payment")]
    _payment: String,
}

impl Wish {
    fn slot(&self) -> Option<SlotId> {
        SlotId::new(self.venue_id.parse().ok()?, self.date, Time::strptime("%H:%M", &self.time).ok()?)
    }
}

async fn book(
    State(desk): State<Arc<Desk>>,
    Guest(person): Guest,
    Json(wish): Json<Wish>,
) -> Result<Response, Problem> {
    let invalid = || Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid-request");
    let slot = wish.slot().filter(|_| (1..=100).contains(&wish.party_size)).ok_or_else(invalid)?;
    match desk.book(person, slot, wish.party_size).await? {
        Booked::Held(held) => {
            let body = json!({
                "id": held.id, "status": "TEMPORARY", "venueId": wish.venue_id, "date": wish.date, "time": wish.time,
                "partySize": wish.party_size, "amountDue": held.price, "expiresAt": held.expires_at,
            });
            Ok((StatusCode::CREATED, Json(body)).into_response())
        }
        Booked::Full { remaining } => {
            let Problem(status, mut body) = Problem::new(StatusCode::CONFLICT, "not-enough-places");
            body["remaining"] = remaining.into();
            Err(Problem(status, body))
        }
        Booked::Already => Err(Problem::new(StatusCode::CONFLICT, "already-booked")),
    }
}

async fn pay(
    State(desk): State<Arc<Desk>>,
    Guest(person): Guest,
    Path(id): Path<ReservationId>,
) -> Result<Json<Value>, Problem> {
    let paid = desk.pay(person, id).await?;
    let (slot, party) = paid.ok_or_else(|| Problem::new(StatusCode::CONFLICT, "illegal-transition"))?;
    Ok(described(id, "CONFIRMED", slot, party))
}

async fn cancel(
    State(desk): State<Arc<Desk>>,
    Guest(person): Guest,
    Path(id): Path<ReservationId>,
) -> Result<Json<Value>, Problem> {
    let gone = desk.cancel(person, id).await?;
    let (slot, party) = gone.ok_or_else(|| Problem::new(StatusCode::CONFLICT, "illegal-transition"))?;
    Ok(described(id, "CANCELED", slot, party))
}

fn described(id: ReservationId, status: &str, slot: SlotId, party: i64) -> Json<Value> {
    Json(json!({
        "id": id, "status": status, "venueId": slot.venue(), "date": slot.date(),
        "time": slot.time().strftime("%H:%M").to_string(), "partySize": party, "amountDue": 0,
    }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Charge {
    amount: i64,
}

async fn charge(
    State(desk): State<Arc<Desk>>,
    Guest(person): Guest,
    Json(Charge { amount }): Json<Charge>,
) -> Result<(StatusCode, Json<Value>), Problem> {
    let (id, balance) = desk.charge(person, amount).await?;
    let entry = json!({ "id": id.to_string(), "amount": amount, "balance": balance, "kind": "charge" });
    Ok((StatusCode::CREATED, Json(entry)))
}

#[derive(Deserialize)]
struct Day {
    date: Date,
}

/// Every venue is like every other.
async fn venue(Path(id): Path<VenueId>) -> Json<Value> {
    Json(json!({ "id": id, "name": "Row lock", "inventory": "places" }))
}

/// Every half hour of the day.
async fn availability(
    State(desk): State<Arc<Desk>>,
    Path(venue): Path<VenueId>,
    Query(Day { date }): Query<Day>,
) -> Result<Json<Value>, Problem> {
    let day = SlotId::day_range(venue, date);
    let day = day.ok_or_else(|| Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid-request"))?;
    let taken: HashMap<_, _> = desk.taken(day).await?.into_iter().collect();
    let times = (0..24).flat_map(|hour| [0, 30].map(|minute| jiff::civil::time(hour, minute, 0, 0)));
    let items = times.map(|time| {
        let slot = SlotId::new(venue, date, time);
        let people = slot.and_then(|slot| taken.get(&slot)).unwrap_or(&0);
        let (time, remaining) = (time.strftime("%H:%M").to_string(), desk.capacity - people);
        json!({ "time": time, "capacity": desk.capacity, "remaining": remaining, "waitingCount": 0 })
    });
    Ok(Json(json!({ "items": items.collect::<Vec<_>>(), "next": null })))
}

/// What somebody has.
async fn own(State(desk): State<Arc<Desk>>, Guest(person): Guest) -> Result<Json<Value>, Problem> {
    let items = desk.of(person).await?.into_iter().map(|owned| {
        let Json(mut item) = described(owned.id, &owned.status, owned.slot, owned.party);
        item["createdAt"] = owned.created_at.to_string().into();
        item["expiresAt"] = owned.expires_at.to_string().into();
        item
    });
    Ok(Json(json!({ "items": items.collect::<Vec<_>>(), "next": null })))
}

async fn ready(State(desk): State<Arc<Desk>>) -> StatusCode {
    if desk.is_ready().await { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }
}
