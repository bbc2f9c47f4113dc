//! What cancelling or changing a reservation would mean at this moment, for somebody who wants to know first.

use std::sync::Arc;

use axum::extract::State;
use booking::policy::CancelledBy;
use booking::venue::MAX_PARTY;
use booking::{ReservationId, terms};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::App;
use super::extract::{Guest, Id, Query};
use super::problem::{Problem, ProblemBody};
use super::reservations::venue;

/// A change that somebody thinks of.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Thought {
    /// For so many people instead.
    party_size: Option<u32>,
}

/// What it would mean, in won.
#[derive(Debug, Serialize, ToSchema)]
pub struct Terms {
    cancel: CancelTerms,
    /// Where a change was asked about, unless it depends on the seats that it gets.
    #[serde(skip_serializing_if = "Option::is_none")]
    change: Option<ChangeTerms>,
}

/// What cancelling now brings back.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CancelTerms {
    percent: u8,
    refund: i64,
    /// Whether the venue hands it out by hand.
    by_staff: bool,
}

/// What changing now costs or brings back.
#[derive(Debug, Serialize, ToSchema)]
pub struct ChangeTerms {
    /// What is paid at once.
    costs: i64,
    /// What comes back at once.
    refund: i64,
    /// What stays with the venue.
    forfeited: i64,
}

/// What cancelling a reservation, or changing its party, would mean now. Another time costs the same.
#[utoipa::path(get, path = "/api/reservations/{id}/terms", operation_id = "terms", tag = "reservations",
    params(("id" = String, Path), Thought),
    responses((status = 200, body = Terms), (status = 404, body = ProblemBody), (status = 422, body = ProblemBody)))]
pub async fn terms(
    State(app): State<Arc<App>>,
    guest: Guest,
    Id(id): Id<ReservationId>,
    Query(thought): Query<Thought>,
) -> Result<axum::Json<Terms>, Problem> {
    let found = app.store.reservation(id).await?.ok_or_else(|| Problem::not_found("reservation"))?;
    let venue = venue(&app, found.slot.venue()).await?;
    let by = match found.person == guest.id {
        true => CancelledBy::Guest,
        false if venue.is_staff(guest.id) => CancelledBy::Venue,
        false => return Err(Problem::not_found("reservation")),
    };
    if thought.party_size.is_some_and(|party| !(1..=MAX_PARTY).contains(&party)) {
        return Err(Problem::field("?partySize", format!("must be between 1 and {MAX_PARTY}")));
    }
    let now = app.clock.now();
    let cancel = terms::cancelling(&venue, &found, by, now);
    let change = thought.party_size.and_then(|party| terms::changing(&venue, &found, party, now));
    let by_staff = venue.settings.policy.refunds_by_staff;
    Ok(axum::Json(Terms {
        cancel: CancelTerms { percent: cancel.percent, refund: cancel.refund.0, by_staff },
        change: change.map(|change| ChangeTerms {
            costs: change.costs.0,
            refund: change.refund.0,
            forfeited: change.forfeited.0,
        }),
    }))
}
