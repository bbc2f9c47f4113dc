//! Waiting for a place in what is sold out, and taking or declining one that is offered (D7).

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use booking::hall::MAX_SEATS;
use booking::venue::{MAX_PARTY, StartTime};
use booking::{Action, Inventory, Outcome, ReservationId, SlotId, Venue, VenueId, Waiting};
use hyper::{HeaderMap, StatusCode};
use jiff::Timestamp;
use jiff::civil::Date;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::App;
use super::extract::{Guest, Id, Json, Nothing, Query};
use super::gate;
use super::language::{self, Language};
use super::managing::{self, PATIENCE};
use super::problem::{Problem, ProblemBody};
use super::reservations::{in_line, slot, turned, venue};
use super::tickets::TicketView;
use super::views::{List, ReservationView};
use crate::desk::{Answer, Waited};
use crate::fresh;
use crate::payments::POINTS;

/// A wish to wait.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct JoinRequest {
    #[schema(example = "2026-12-24")]
    date: String,
    #[schema(example = "12:00")]
    time: String,
    party_size: u32,
}

/// A place on a waitlist.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Waiting)]
pub struct WaitingView {
    #[schema(value_type = String)]
    venue_id: VenueId,
    #[schema(value_type = String, format = Date)]
    date: Date,
    #[schema(value_type = String, example = "12:00")]
    time: StartTime,
    party_size: u32,
    /// 1 for whoever is first; 0 for somebody who has been offered a place.
    position: usize,
    /// How many parties wait for it.
    waiting_count: usize,
    #[schema(value_type = String, format = DateTime)]
    since: Timestamp,
    /// The place that is offered: pay it before it expires.
    #[serde(skip_serializing_if = "Option::is_none")]
    offer: Option<ReservationView>,
}

impl WaitingView {
    fn of(slot: SlotId, list: &[Waiting], own: &Waiting) -> Self {
        let ahead = list.iter().filter(|party| party.rank < own.rank).count();
        Self {
            venue_id: slot.venue(),
            date: slot.date(),
            time: StartTime(slot.time()),
            party_size: own.party,
            position: ahead + 1,
            waiting_count: list.len(),
            since: own.since,
            offer: None,
        }
    }
}

/// Which slot.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub struct Which {
    /// `YYYY-MM-DD`, in the venue's time zone.
    date: String,
    /// `HH:MM`.
    time: String,
}

/// Whether a party could ever be offered a place here.
fn check(venue: &Venue, party: u32) -> Result<(), Problem> {
    let most = match &venue.settings.inventory {
        Inventory::Places { capacity } => MAX_PARTY.min(*capacity),
        Inventory::Exclusive => MAX_PARTY,
        Inventory::Tables { tables } => tables.iter().map(|table| table.seats).max().unwrap_or(0),
        Inventory::Seats { sections } => MAX_SEATS.min(sections.most_together(None, |_| true)),
    };
    match (1..=most).contains(&party) {
        true => Ok(()),
        false => Err(Problem::field("/partySize", format!("must be between 1 and {most}"))),
    }
}

/// Wait for a place. Whoever is first on the list and fits is offered what becomes free, at once if anything is free.
#[utoipa::path(post, path = "/api/venues/{id}/waitlist", operation_id = "join_waitlist", tag = "waitlist", params(("id" = String, Path)),
    request_body = JoinRequest,
    responses((status = 201, body = WaitingView), (status = 202, body = TicketView), (status = 404, body = ProblemBody),
              (status = 409, body = ProblemBody), (status = 422, body = ProblemBody), (status = 429, body = ProblemBody)))]
pub async fn join(
    State(app): State<Arc<App>>,
    guest: Guest,
    Id(id): Id<VenueId>,
    headers: HeaderMap,
    Json { value: request, .. }: Json<JoinRequest>,
) -> Result<Response, Problem> {
    let venue = venue(&app, id).await?;
    let slot = slot(&app, &venue, &request.date, &request.time).map_err(Problem::invalid)?;
    check(&venue, request.party_size)?;
    gate::pass(&app, &guest, venue.id, &headers).await?;
    let offer = fresh::reservation_id(app.clock.now());
    let action = Action::Join { name: guest.name.clone(), party: request.party_size, offer };
    if let Some(response) = decided(&app, &guest, slot, action, Language::of(&headers)).await? {
        return Ok(response);
    }
    let place = place(&app, &guest, slot, Some(offer)).await?;
    Ok((StatusCode::CREATED, axum::Json(place.ok_or_else(|| Problem::not_found("place on the waitlist"))?))
        .into_response())
}

/// Waits until a wish about the waitlist is decided; an answer of its own if the line is long.
async fn decided(
    app: &App,
    guest: &Guest,
    slot: SlotId,
    action: Action,
    language: Language,
) -> Result<Option<Response>, Problem> {
    let ticket = app.admission.manage(slot, guest.id, action).await.map_err(turned)?;
    match ticket.wait(PATIENCE).await {
        Waited::Answered(Answer::Decided(settled)) => match &settled.outcome {
            Outcome::Refused(refusal) => Err(language::refusal(*refusal).about(ticket.id())),
            Outcome::Done(_) | Outcome::Noted => Ok(None),
        },
        Waited::Answered(_) => Err(Problem::internal().about(ticket.id())),
        Waited::Stalled => Err(Problem::unavailable().about(ticket.id())),
        Waited::StillWaiting => Ok(Some(in_line(app, &ticket, language).await)),
    }
}

/// Where this person stands on the list of a slot, or what they have been offered from it.
async fn place(
    app: &App,
    guest: &Guest,
    slot: SlotId,
    offer: Option<ReservationId>,
) -> Result<Option<WaitingView>, Problem> {
    let list = app.store.waitlist(slot).await?;
    if let Some(own) = list.iter().find(|party| party.person == guest.id) {
        return Ok(Some(WaitingView::of(slot, &list, own)));
    }
    let Some(offer) = offer else { return Ok(None) };
    let Some(reservation) = app.store.reservation(offer).await? else { return Ok(None) };
    Ok(Some(WaitingView {
        venue_id: slot.venue(),
        date: slot.date(),
        time: StartTime(slot.time()),
        party_size: reservation.party,
        position: 0,
        waiting_count: list.len(),
        since: reservation.created_at,
        offer: Some(ReservationView::seen_at(&reservation, app.clock.now())),
    }))
}

/// The slot that a query names, whether or not it can be booked.
fn named(venue: &Venue, which: &Which) -> Result<SlotId, Problem> {
    let date = super::extract::date(&which.date)
        .ok_or_else(|| Problem::field("?date", "is not a date; write YYYY-MM-DD"))?;
    let time: StartTime =
        which.time.parse().map_err(|message| Problem::field("?time", format!("is {message}")))?;
    SlotId::new(venue.id, date, time.0).ok_or_else(|| Problem::field("?date", "is out of range"))
}

/// Where one stands on a waitlist.
#[utoipa::path(get, path = "/api/venues/{id}/waitlist", operation_id = "waitlist_place", tag = "waitlist", params(("id" = String, Path), Which),
    responses((status = 200, body = WaitingView), (status = 404, body = ProblemBody)))]
pub async fn look(
    State(app): State<Arc<App>>,
    guest: Guest,
    Id(id): Id<VenueId>,
    Query(which): Query<Which>,
) -> Result<axum::Json<WaitingView>, Problem> {
    let venue = venue(&app, id).await?;
    let place = place(&app, &guest, named(&venue, &which)?, None).await?;
    place.map(axum::Json).ok_or_else(|| Problem::not_found("place on the waitlist"))
}

/// Wait no longer.
#[utoipa::path(delete, path = "/api/venues/{id}/waitlist", operation_id = "leave_waitlist", tag = "waitlist", params(("id" = String, Path), Which),
    responses((status = 204, description = "Not on the list any more"), (status = 404, body = ProblemBody)))]
pub async fn leave(
    State(app): State<Arc<App>>,
    guest: Guest,
    Id(id): Id<VenueId>,
    headers: HeaderMap,
    Query(which): Query<Which>,
) -> Result<Response, Problem> {
    let venue = venue(&app, id).await?;
    let slot = named(&venue, &which)?;
    if place(&app, &guest, slot, None).await?.is_none() {
        return Err(Problem::not_found("place on the waitlist"));
    }
    let decided = decided(&app, &guest, slot, Action::Unlist {}, Language::of(&headers)).await?;
    Ok(decided.unwrap_or_else(|| StatusCode::NO_CONTENT.into_response()))
}

/// All waitlists on which one is.
#[utoipa::path(get, path = "/api/waitlist", operation_id = "own_waitlists", tag = "waitlist",
    responses((status = 200, body = List<WaitingView>), (status = 401, body = ProblemBody)))]
pub async fn own(
    State(app): State<Arc<App>>,
    guest: Guest,
) -> Result<axum::Json<List<WaitingView>>, Problem> {
    let mut items = Vec::new();
    for (slot, own) in app.store.waits_of(guest.id).await? {
        let list = app.store.waitlist(slot).await?;
        items.push(WaitingView::of(slot, &list, &own));
    }
    Ok(axum::Json(List::whole(items)))
}

/// One's own offer.
async fn offered(app: &App, guest: &Guest, id: ReservationId) -> Result<(), Problem> {
    let found = app.store.reservation(id).await?;
    match found.filter(|r| r.person == guest.id && r.offered) {
        Some(_) => Ok(()),
        None => Err(Problem::not_found("offer")),
    }
}

/// Accept what is offered: what it costs is paid with points.
#[utoipa::path(post, path = "/api/offers/{reservationId}/accept", tag = "waitlist", params(("reservationId" = String, Path)),
    responses((status = 200, body = ReservationView), (status = 404, body = ProblemBody), (status = 409, body = ProblemBody)))]
pub async fn accept(
    State(app): State<Arc<App>>,
    guest: Guest,
    Id(id): Id<ReservationId>,
    headers: HeaderMap,
    Nothing: Nothing,
) -> Result<Response, Problem> {
    offered(&app, &guest, id).await?;
    managing::pay_with(&app, &guest, id, POINTS, &headers).await
}

/// Decline what is offered: it goes to the next on the list.
#[utoipa::path(post, path = "/api/offers/{reservationId}/decline", tag = "waitlist", params(("reservationId" = String, Path)),
    responses((status = 200, body = ReservationView), (status = 404, body = ProblemBody), (status = 409, body = ProblemBody)))]
pub async fn decline(
    State(app): State<Arc<App>>,
    guest: Guest,
    Id(id): Id<ReservationId>,
    Nothing: Nothing,
) -> Result<Response, Problem> {
    offered(&app, &guest, id).await?;
    managing::give_up(&app, &guest, id).await
}
