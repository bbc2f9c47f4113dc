//! Asking for a reservation, and looking at one's own.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use booking::decide::Booking;
use booking::hall::MAX_SEATS;
use booking::venue::{MAX_PARTY, NotOffered, StartTime};
use booking::{
    Action, OrderLine, Outcome, Payment, Refusal, Reservation, ReservationId, Seat, SlotId, TicketId, Venue,
    VenueId,
};
use fairlane::lane::Refused;
use hyper::StatusCode;
use hyper::header::{HeaderValue, LOCATION, RETRY_AFTER};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use super::App;
use super::extract::{Guest, Id, IdempotencyKey, Json, Patience, Query, date};
use super::gate;
use super::language::{self, Language};
use super::moves::Holder;
use super::problem::{Code, FieldError, Problem, ProblemBody, later};
use super::tickets::TicketView;
use super::views::{List, ReservationView};
use crate::admission::Admitted;
use crate::desk::{Answer, Key, Ticket, Turned, Waited, Wish};
use crate::fresh;

/// A wish for a reservation.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BookingRequest {
    venue_id: String,
    #[schema(example = "2026-12-24")]
    date: String,
    #[schema(example = "12:00")]
    time: String,
    /// Between 1 and 100; up to 8 with numbered seats, and may be left out where they are named.
    party_size: Option<u32>,
    /// For venues with numbered seats: which ones, all or none. The best that are together if left out.
    #[schema(example = json!(["A-1-7", "A-1-8"]))]
    seats: Option<Vec<String>>,
    /// For venues with numbered seats: the section in which to look for the best.
    section: Option<String>,
    /// `deposit` or `prepay`.
    #[schema(value_type = String)]
    payment: Payment,
    /// What to prepay.
    items: Option<Vec<ItemRequest>>,
    /// Words to the venue, up to 500 characters.
    note: Option<String>,
}

/// Something to order ahead.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ItemRequest {
    menu_item_id: String,
    /// Between 1 and 99.
    quantity: u32,
}

/// Ask for a reservation. It is decided in its turn whether or not anybody waits for the answer.
#[utoipa::path(post, path = "/api/reservations", tag = "reservations", request_body = BookingRequest,
    params(("Idempotency-Key" = Option<String>, Header, description = "The same key has one place and one answer."),
           ("Prefer" = Option<String>, Header, description = "`wait=N`: seconds to wait in the call, 0 to 10; 2 if absent."),
           ("Queue-Token" = Option<String>, Header, description = "A token that is inside, where the venue has a waiting room.")),
    responses((status = 201, description = "Seated", body = ReservationView),
              (status = 202, description = "In line: the ticket keeps the place", body = TicketView),
              (status = 409, body = ProblemBody), (status = 422, body = ProblemBody), (status = 429, body = ProblemBody),
              (status = 401, body = ProblemBody), (status = 403, body = ProblemBody), (status = 404, body = ProblemBody), (status = 503, body = ProblemBody)))]
pub async fn book(
    State(app): State<Arc<App>>,
    guest: Guest,
    patience: Patience,
    key: IdempotencyKey,
    headers: hyper::HeaderMap,
    Json { value: request, bytes }: Json<BookingRequest>,
) -> Result<Response, Problem> {
    let language = Language::of(&headers);
    let venue_id = request.venue_id.parse().map_err(|_| Problem::not_found("venue"))?;
    let venue = venue(&app, venue_id).await?;
    let slot = slot(&app, &venue, &request.date, &request.time);
    let wish = wish(&app, &venue, request, &guest);
    let key = key.with_body(&bytes);
    let gate = gate::pass(&app, &guest, venue.id, &headers).await;
    let admitted = match (slot, wish) {
        (Ok(slot), Ok(booking)) if gate.is_ok() => {
            refuse_taken(&app, &venue, slot, &booking, &guest, key.as_ref()).await?;
            let (person, action) = (guest.id, Action::Book(Box::new(booking)));
            let rate = venue.settings.requests_per_second;
            app.admission.book(Wish { slot, person, action, key, rate }).await.map_err(turned)?
        }
        (slot, booking) => {
            let errors = [slot.err(), booking.err()].into_iter().flatten().flatten().collect();
            // What could be booked when it was first asked for keeps its answer, whatever has passed since.
            let before = match &key {
                Some(key) => app.admission.before(guest.id, key).await.map_err(turned)?,
                None => None,
            };
            before.ok_or_else(|| gate.err().unwrap_or_else(|| Problem::invalid(errors)))?
        }
    };
    let answered = match admitted {
        Admitted::InLine(ticket) => {
            let answered = answer(&app, &ticket, patience, language).await;
            match taken_meanwhile(&app, &venue, &ticket).await {
                Some(remaining) => {
                    Err(language::refusal(Refusal::SeatTaken { remaining }).about(ticket.id()))
                }
                None => answered,
            }
        }
        Admitted::Before(id) => answer_again(&app, id).await,
    };
    let mut response = answered.into_response();
    if let Some(seconds) = patience.applied {
        let applied = HeaderValue::from_str(&format!("wait={seconds}")).map_err(|_| Problem::internal())?;
        response.headers_mut().insert("preference-applied", applied);
    }
    Ok(response)
}

/// Seats that are held are refused at once, however long the line is (C6).
async fn refuse_taken(
    app: &App,
    venue: &Venue,
    slot: SlotId,
    booking: &Booking,
    guest: &Guest,
    key: Option<&Key>,
) -> Result<(), Problem> {
    if booking.seats.is_empty() {
        return Ok(());
    }
    let (inventory, now) = (&venue.settings.inventory, app.clock.now());
    let Some(remaining) = app.seating.taken(slot, inventory, &booking.seats, guest.id, now).await else {
        return Ok(());
    };
    // The same request may have been answered before.
    match key {
        Some(key) if app.admission.before(guest.id, key).await.map_err(turned)?.is_some() => Ok(()),
        _ => Err(language::refusal(Refusal::SeatTaken { remaining })),
    }
}

/// Whether somebody else has taken the seats that a ticket still stands in line for: then it need not stand there. How many
/// are left.
async fn taken_meanwhile(app: &App, venue: &Venue, ticket: &Arc<Ticket>) -> Option<u32> {
    let (Action::Book(booking), None) = (&ticket.command.action, ticket.answer()) else { return None };
    if booking.seats.is_empty() {
        return None;
    }
    let (slot, person, inventory) = (ticket.id().slot, ticket.command.person, &venue.settings.inventory);
    let remaining = app.seating.taken(slot, inventory, &booking.seats, person, app.clock.now()).await?;
    app.desk.leave(ticket).await.then_some(remaining)
}

/// The answer to a request that was decided a while ago.
async fn answer_again(app: &App, id: TicketId) -> Result<Response, Problem> {
    let logged = app.store.decided(id).await?.ok_or_else(|| Problem::not_found("ticket"))?;
    match app.desk.recall(logged).await?.outcome {
        Outcome::Done(reservation) => Ok(created(&reservation)),
        Outcome::Noted => Err(Problem::not_found("reservation")),
        Outcome::Refused(refusal) => Err(language::refusal(refusal).about(id)),
    }
}

/// Waits for the answer as long as the caller wants to.
async fn answer(
    app: &App,
    ticket: &Arc<Ticket>,
    patience: Patience,
    language: Language,
) -> Result<Response, Problem> {
    let id = ticket.id();
    match ticket.wait(patience.wait).await {
        Waited::Answered(Answer::Decided(settled)) => match &settled.outcome {
            Outcome::Done(reservation) => Ok(created(reservation)),
            Outcome::Noted => Err(Problem::internal().about(id)),
            // The same request may have been decided under another ticket, at another process.
            Outcome::Refused(refusal) => {
                Err(language::refusal(*refusal).about(settled.decision.ticket.unwrap_or(id)))
            }
        },
        Waited::Answered(Answer::KeyMismatch) => Err(turned(Turned::KeyMismatch).about(id)),
        Waited::Answered(Answer::Failed) => Err(Problem::internal().about(id)),
        Waited::Answered(Answer::Left) => {
            Ok(axum::Json(TicketView::of(app, ticket, language).await).into_response())
        }
        Waited::Stalled => Err(Problem::unavailable().about(id)),
        Waited::StillWaiting => Ok(in_line(app, ticket, language).await),
    }
}

/// Somebody is in line: the ticket keeps the place.
pub async fn in_line(app: &App, ticket: &Ticket, language: Language) -> Response {
    let view = TicketView::of(app, ticket, language).await;
    // Sooner than the turn comes, so that the person sees the line move; not all at the same time.
    let again = later((view.estimated_wait_seconds / 4).clamp(2, 15));
    let location = format!("/api/tickets/{}", ticket.id());
    let headers = [(LOCATION, location), (RETRY_AFTER, again.to_string())];
    (StatusCode::ACCEPTED, headers, axum::Json(view)).into_response()
}

fn created(reservation: &Reservation) -> Response {
    let location = format!("/api/reservations/{}", reservation.id);
    (StatusCode::CREATED, [(LOCATION, location)], axum::Json(ReservationView::from(reservation)))
        .into_response()
}

/// Why somebody has no place in line, told to the person.
pub fn turned(turned: Turned) -> Problem {
    match turned {
        Turned::InProgress(ticket) => Problem::new(
            Code::RequestInProgress,
            "You already have a request for this time under way; its ticket has your place.",
            "이미 처리 중인 요청이 있습니다.",
        )
        .about(ticket),
        Turned::KeyMismatch => Problem::new(
            Code::IdempotencyMismatch,
            "This Idempotency-Key was used for another request. Send a new key.",
            "다른 요청에 사용된 Idempotency-Key입니다.",
        ),
        Turned::Limited(after) => Problem {
            retry_after: Some(after.as_secs() + u64::from(after.subsec_nanos() > 0)),
            ..Problem::new(
                Code::RateLimited,
                "Too many people ask at the same moment. Come back in a second.",
                "요청이 너무 많습니다. 잠시 후 다시 시도해 주세요.",
            )
        },
        Turned::Line(Refused::Full { waiting }) => Problem {
            retry_after: Some(later(5)),
            ..Problem::new(
                Code::LineFull,
                format!("The line is full: {waiting} people wait already. Come back in a while."),
                format!("대기열이 가득 찼습니다(대기 {waiting}명). 잠시 후 다시 시도해 주세요."),
            )
        },
        Turned::Line(Refused::Closed) => Problem {
            retry_after: Some(later(2)),
            ..Problem::new(Code::Unavailable, "The server is restarting.", "서버를 다시 시작하는 중입니다.")
        },
        Turned::Store(error) => error.into(),
    }
}

/// The venue, or that there is none.
pub async fn venue(app: &App, id: VenueId) -> Result<Arc<Venue>, Problem> {
    app.venues.get(id).await?.ok_or_else(|| Problem::not_found("venue"))
}

type Errors = Vec<FieldError>;

fn wrong(pointer: &'static str, message: impl Into<Cow<'static, str>>) -> FieldError {
    FieldError { pointer: pointer.into(), message: message.into() }
}

/// The slot at this date and time, if it can be booked now.
pub fn slot(app: &App, venue: &Venue, day: &str, time: &str) -> Result<SlotId, Errors> {
    let parsed = (date(day), time.parse::<StartTime>());
    let (Some(day), Ok(time)) = parsed else {
        let day = parsed.0.is_none().then(|| wrong("/date", "is not a date; write YYYY-MM-DD"));
        let time = parsed.1.err().map(|message| wrong("/time", format!("is {message}")));
        return Err([day, time].into_iter().flatten().collect());
    };
    venue.slot(day, time, app.clock.now()).map_err(|reason| {
        let error = match reason {
            NotOffered::Past => wrong("/date", "and /time are in the past"),
            NotOffered::TooEarly(last) => wrong("/date", format!("is too far ahead; the last day is {last}")),
            NotOffered::NoSuchTime => {
                wrong("/time", "is not offered on that day; see the venue's availability")
            }
        };
        vec![error]
    })
}

fn wish(app: &App, venue: &Venue, request: BookingRequest, guest: &Guest) -> Result<Booking, Errors> {
    let mut errors = Vec::new();
    let (party, seats) = party(venue, &request, &mut errors);
    let items = request.items.unwrap_or_default();
    match request.payment {
        _ if venue.settings.inventory.hall().is_some() => {}
        Payment::Prepay if items.is_empty() => errors.push(wrong("/items", "must name what is prepaid")),
        Payment::Deposit if !items.is_empty() => {
            errors.push(wrong("/items", "are paid with payment \"prepay\" only"));
        }
        _ => {}
    }
    if items.len() > 50 {
        errors.push(wrong("/items", "must be 50 at most"));
    }
    let lines: Vec<_> = items.iter().take(50).filter_map(|item| line(venue, item, &mut errors)).collect();
    let note = request.note.filter(|note| !note.trim().is_empty());
    if note.as_ref().is_some_and(|note| note.chars().count() > 500) {
        errors.push(wrong("/note", "must have 500 characters at most"));
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    Ok(Booking {
        id: fresh::reservation_id(app.clock.now()),
        name: guest.name.clone(),
        party,
        seats: seats.into(),
        section: request.section.map(Into::into),
        payment: request.payment,
        // Nothing ordered is the rule, and takes no memory.
        order: if lines.is_empty() { Arc::default() } else { lines.into() },
        note: note.map(Into::into),
    })
}

/// How many come, and which seats they name.
fn party(venue: &Venue, request: &BookingRequest, errors: &mut Errors) -> (u32, Vec<Seat>) {
    let seats: Vec<_> = request.seats.iter().flatten().map(|label| Seat::labelled(label)).collect();
    let named = u32::try_from(seats.len()).unwrap_or(u32::MAX);
    let party = request.party_size.unwrap_or(named);
    let Some(hall) = venue.settings.inventory.hall() else {
        if !(1..=MAX_PARTY).contains(&party) {
            errors.push(wrong("/partySize", format!("must be between 1 and {MAX_PARTY}")));
        }
        let fields = [("/seats", request.seats.is_some()), ("/section", request.section.is_some())];
        let asked = fields.into_iter().filter(|(_, asked)| *asked);
        errors.extend(
            asked.map(|(field, _)| wrong(field, "cannot be chosen: this venue has no numbered seats")),
        );
        return (party, Vec::new());
    };
    if !(1..=MAX_SEATS).contains(&party) {
        errors
            .push(wrong("/partySize", format!("must be between 1 and {MAX_SEATS} where seats are numbered")));
    }
    if request.seats.is_some() && named != party {
        errors
            .push(wrong("/seats", "must be as many as partySize; leave them out for the best that are free"));
    }
    if let Some(unknown) = seats.iter().find(|seat| hall.price(seat).is_none()) {
        errors.push(wrong("/seats", format!("name {:?}, which this venue does not have", unknown.as_str())));
    }
    if seats.iter().collect::<HashSet<_>>().len() != seats.len() {
        errors.push(wrong("/seats", "must each be named once"));
    }
    let section = request.section.as_deref();
    if section.is_some_and(|name| hall.sections().iter().all(|known| known.name != name)) {
        errors.push(wrong("/section", "is not one of this venue"));
    }
    if section.is_some() && request.seats.is_some() {
        errors.push(wrong("/section", "is for seats that are not named"));
    }
    (party, seats)
}

fn line(venue: &Venue, item: &ItemRequest, errors: &mut Errors) -> Option<OrderLine> {
    let known = item.menu_item_id.parse().ok().and_then(|id| venue.menu_item(id));
    if known.is_none() {
        errors.push(wrong("/items", format!("name {:?}, which is not on the menu", item.menu_item_id)));
    }
    if !(1..=99).contains(&item.quantity) {
        errors.push(wrong("/items", "must each have a quantity between 1 and 99"));
    }
    let known = known?;
    Some(OrderLine { item: known.id, name: known.name.clone(), price: known.price, quantity: item.quantity })
}

/// Where to go on in a list.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub struct Cursor {
    /// What `next` said.
    pub cursor: Option<String>,
}

/// One's own reservations, newest first.
#[utoipa::path(get, path = "/api/reservations", tag = "reservations", params(Cursor),
    responses((status = 200, body = List<ReservationView>), (status = 401, body = ProblemBody)))]
pub async fn own(
    State(app): State<Arc<App>>,
    guest: Guest,
    Query(Cursor { cursor }): Query<Cursor>,
) -> Result<axum::Json<List<ReservationView>>, Problem> {
    let after = cursor.map(|cursor| cursor.parse()).transpose();
    let after = after.map_err(|_| Problem::field("?cursor", "must be what `next` said"))?;
    let page = app.store.reservations_of(guest.id, after, 50).await?;
    let items = page.items.iter().map(|r| ReservationView::seen_at(r, app.clock.now())).collect();
    Ok(axum::Json(List { items, next: page.next }))
}

/// One of one's own reservations.
#[utoipa::path(get, path = "/api/reservations/{id}", operation_id = "reservation", tag = "reservations", params(("id" = String, Path)),
    responses((status = 200, body = ReservationView), (status = 404, body = ProblemBody)))]
pub async fn one(
    State(app): State<Arc<App>>,
    holder: Holder,
    Id(id): Id<ReservationId>,
) -> Result<axum::Json<ReservationView>, Problem> {
    let found =
        app.store.reservation(id).await?.filter(|r| r.person == holder.guest.id && holder.may(r.ticket));
    let reservation = found.ok_or_else(|| Problem::not_found("reservation"))?;
    let payments = app.store.payments_about(vec![id]).await?;
    Ok(axum::Json(ReservationView::seen_at(&reservation, app.clock.now()).with_payments(&payments)))
}
