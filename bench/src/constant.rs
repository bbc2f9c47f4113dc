//! The limit of HTTP: a server that reads a request and answers a constant, as long as maitred's own answer.
//!
//! The same listener, router and allocator as the row lock, in a process of its own: what is left of a figure when
//! nothing is decided and nothing is stored.

use axum::Router;
use axum::body::Bytes;
use axum::routing::{get, post};
use hyper::StatusCode;
use hyper::header::{CONTENT_TYPE, HeaderName, LOCATION};
use serde_json::json;

use crate::world::ENDLESS;
use crate::{Result, served};

/// What maitred answers to a booking.
const ANSWER: &str = r#"{"id":"01k3v5e9gqrs8m2x4c7d0f1h6j","status":"TEMPORARY","venueId":"1","date":"2026-12-24","time":"12:00","name":"Kim Guest","partySize":2,"payment":"deposit","amountDue":10000,"amountPaid":0,"amountRefunded":0,"refundDue":0,"expiresAt":"2026-12-23T03:07:00.123Z","createdAt":"2026-12-23T03:00:00.123Z","ticket":{"id":"00000080sc3h00000400000001","epoch":1,"number":1}}"#;
const HEADERS: [(HeaderName, &str); 2] =
    [(CONTENT_TYPE, "application/json"), (LOCATION, "/api/reservations/01k3v5e9gqrs8m2x4c7d0f1h6j")];

/// Every half hour of any day, as far as a guest who looks around wants to know.
fn availability() -> String {
    let times = (0..24).flat_map(|hour| [0, 30].map(|minute| format!("{hour:02}:{minute:02}")));
    let items: Vec<_> = times.map(|time| json!({ "time": time, "remaining": ENDLESS })).collect();
    json!({ "items": items, "next": null }).to_string()
}

/// Serves until whoever started this program closes the pipe, or kills it.
pub async fn serve() -> Result<()> {
    let book = post(|_: Bytes| async { (StatusCode::CREATED, HEADERS, ANSWER) });
    let day = availability();
    let router = Router::new()
        .route("/api/reservations", book)
        .route("/api/venues/{id}", get(|| async { r#"{"name":"A constant","inventory":"places"}"# }))
        .route("/api/venues/{id}/availability", get(|| async { day }))
        .route("/health/ready", get(|| async { StatusCode::OK }));
    served::serve_router(router).await
}
