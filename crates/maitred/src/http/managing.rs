//! What can be done about a reservation: pay, cancel and change it by its guest; complete, no-show, refund and cancel it
//! by the venue. All of it goes through the slot's lane, ahead of those who want a place.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use booking::policy::CancelledBy;
use booking::venue::MAX_PARTY;
use booking::{Action, Outcome, Refusal, Reservation, ReservationId, SlotId};
use serde::Deserialize;
use utoipa::ToSchema;

use super::App;
use super::extract::{Guest, Id, Json, Nothing};
use super::language;
use super::problem::{Code, Problem, ProblemBody};
use super::reservations::{slot, turned, venue};
use super::views::ReservationView;
use crate::admission::Turned;
use crate::desk::{Answer, Ticket, Waited};
use crate::fresh;

/// How long somebody who has a place waits in the call.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// A reservation that moves to another slot while it is being asked about is followed so often.
const FOLLOW: usize = 4;

type Answered = Result<axum::Json<ReservationView>, Problem>;

/// Whose business it is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Guest,
    Staff,
    GuestOrStaff,
}

/// The reservation, for somebody whose business it is, and in which role they come.
async fn find(
    app: &App,
    guest: &Guest,
    id: ReservationId,
    role: Role,
) -> Result<(Reservation, CancelledBy), Problem> {
    let missing = || Problem::not_found("reservation");
    let reservation = app.store.reservation(id).await?.ok_or_else(missing)?;
    let is_staff = venue(app, reservation.slot.venue()).await?.is_staff(guest.id);
    let is_owner = reservation.person == guest.id;
    match role {
        Role::Guest | Role::GuestOrStaff if is_owner => Ok((reservation, CancelledBy::Guest)),
        Role::Staff | Role::GuestOrStaff if is_staff => Ok((reservation, CancelledBy::Venue)),
        Role::Staff if is_owner => Err(Problem::forbidden()),
        _ => Err(missing()),
    }
}

/// Does something about a reservation in the lane of its slot, wherever that is by then.
async fn manage(
    app: &App,
    guest: &Guest,
    id: ReservationId,
    role: Role,
    enter: impl Fn(&Reservation, CancelledBy) -> Result<Arc<Ticket>, Problem>,
) -> Answered {
    for _ in 0..FOLLOW {
        let (reservation, by) = find(app, guest, id, role).await?;
        let ticket = enter(&reservation, by)?;
        let Waited::Answered(answer) = ticket.wait(PATIENCE).await else {
            return Err(Problem::unavailable().about(ticket.id()));
        };
        match answer {
            Answer::Decided(settled) => match &settled.outcome {
                Outcome::Done(done) => return Ok(axum::Json(ReservationView::from(done.as_ref()))),
                Outcome::Refused(Refusal::Elsewhere) => continue,
                Outcome::Refused(refusal) => return Err(language::refusal(*refusal).about(ticket.id())),
            },
            Answer::Left | Answer::KeyMismatch | Answer::Failed => {
                return Err(Problem::internal().about(ticket.id()));
            }
        }
    }
    Err(Problem::unavailable())
}

fn enter(app: &App, guest: &Guest, slot: SlotId, action: Action) -> Result<Arc<Ticket>, Problem> {
    app.admission.manage(slot, guest.id, action).map_err(turned)
}

/// How to pay.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PaymentRequest {
    /// `points`: out of the wallet.
    #[serde(rename = "method")]
    _method: Method,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
enum Method {
    Points,
}

/// Pay a reservation. A payment that comes too late takes a new place if one is left, as a new reservation, and costs
/// nothing if not.
#[utoipa::path(post, path = "/api/reservations/{id}/payment", tag = "reservations", params(("id" = String, Path)),
    request_body = PaymentRequest,
    responses((status = 200, body = ReservationView), (status = 404, body = ProblemBody), (status = 409, body = ProblemBody)))]
pub async fn pay(
    State(app): State<Arc<App>>,
    guest: Guest,
    Id(id): Id<ReservationId>,
    Json { .. }: Json<PaymentRequest>,
) -> Answered {
    let enter = |reservation: &Reservation, _| {
        let afresh = fresh::reservation_id(app.clock.now());
        let action = Action::Pay { reservation: id, afresh };
        app.admission.pay(reservation.slot, guest.id, id, action).map_err(|reason| match reason {
            Turned::InProgress(ticket) => {
                let (en, ko) = ("This reservation is being paid already.", "이미 결제가 진행 중입니다.");
                Problem::new(Code::PaymentInProgress, en, ko).about(ticket)
            }
            other => turned(other),
        })
    };
    manage(&app, &guest, id, Role::Guest, enter).await
}

/// Cancel a reservation: by its guest, with a refund by how early it is; by the venue's staff, with all of it.
#[utoipa::path(post, path = "/api/reservations/{id}/cancel", tag = "reservations", params(("id" = String, Path)),
    responses((status = 200, body = ReservationView), (status = 404, body = ProblemBody), (status = 409, body = ProblemBody)))]
pub async fn cancel(
    State(app): State<Arc<App>>,
    guest: Guest,
    Id(id): Id<ReservationId>,
    Nothing: Nothing,
) -> Answered {
    let cancelled = manage(&app, &guest, id, Role::GuestOrStaff, |reservation, by| {
        enter(&app, &guest, reservation.slot, Action::Cancel { reservation: id, by })
    });
    let cancelled = cancelled.await?;
    if let Some(reservation) = app.store.reservation(id).await? {
        app.admission.clear(reservation.person, reservation.slot);
    }
    Ok(cancelled)
}

/// What to change.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChangeRequest {
    party_size: Option<u32>,
    date: Option<String>,
    time: Option<String>,
}

/// Change the party or the time in one step: the old place is given up only when the new one is secured.
#[utoipa::path(patch, path = "/api/reservations/{id}", tag = "reservations", params(("id" = String, Path)),
    request_body = ChangeRequest,
    responses((status = 200, body = ReservationView), (status = 404, body = ProblemBody), (status = 409, body = ProblemBody),
              (status = 422, body = ProblemBody)))]
pub async fn change(
    State(app): State<Arc<App>>,
    guest: Guest,
    Id(id): Id<ReservationId>,
    Json { value: request, .. }: Json<ChangeRequest>,
) -> Answered {
    if request.party_size.is_none() && request.date.is_none() && request.time.is_none() {
        return Err(Problem::field("", "must name partySize, date or time"));
    }
    if request.party_size.is_some_and(|party| !(1..=MAX_PARTY).contains(&party)) {
        return Err(Problem::field("/partySize", format!("must be between 1 and {MAX_PARTY}")));
    }
    let (reservation, _) = find(&app, &guest, id, Role::Guest).await?;
    let venue = venue(&app, reservation.slot.venue()).await?;
    if venue.start(reservation.slot) <= app.clock.now() {
        return Err(Problem::field("", "comes too late: the reservation's time has passed"));
    }
    let day = request.date.unwrap_or_else(|| reservation.slot.date().to_string());
    let time = request.time.unwrap_or_else(|| booking::venue::StartTime(reservation.slot.time()).to_string());
    let target = slot(&app, &venue, &day, &time).map_err(Problem::invalid)?;
    let changed = manage(&app, &guest, id, Role::Guest, |now, _| {
        let party = request.party_size.unwrap_or(now.party);
        enter(&app, &guest, target, Action::Change { reservation: id, party })
    });
    let changed = changed.await?;
    app.admission.clear(guest.id, reservation.slot);
    Ok(changed)
}

/// The guests came.
#[utoipa::path(post, path = "/api/reservations/{id}/complete", tag = "staff", params(("id" = String, Path)),
    responses((status = 200, body = ReservationView), (status = 403, body = ProblemBody), (status = 409, body = ProblemBody)))]
pub async fn complete(
    State(app): State<Arc<App>>,
    guest: Guest,
    Id(id): Id<ReservationId>,
    Nothing: Nothing,
) -> Answered {
    let action = Action::Complete { reservation: id };
    manage(&app, &guest, id, Role::Staff, |r, _| enter(&app, &guest, r.slot, action.clone())).await
}

/// The guests did not come.
#[utoipa::path(post, path = "/api/reservations/{id}/no-show", tag = "staff", params(("id" = String, Path)),
    responses((status = 200, body = ReservationView), (status = 403, body = ProblemBody), (status = 409, body = ProblemBody)))]
pub async fn no_show(
    State(app): State<Arc<App>>,
    guest: Guest,
    Id(id): Id<ReservationId>,
    Nothing: Nothing,
) -> Answered {
    let action = Action::NoShow { reservation: id };
    manage(&app, &guest, id, Role::Staff, |r, _| enter(&app, &guest, r.slot, action.clone())).await
}

/// Hand out a refund that waits for the staff.
#[utoipa::path(post, path = "/api/reservations/{id}/refund", tag = "staff", params(("id" = String, Path)),
    responses((status = 200, body = ReservationView), (status = 403, body = ProblemBody), (status = 409, body = ProblemBody)))]
pub async fn refund(
    State(app): State<Arc<App>>,
    guest: Guest,
    Id(id): Id<ReservationId>,
    Nothing: Nothing,
) -> Answered {
    let action = Action::Refund { reservation: id };
    manage(&app, &guest, id, Role::Staff, |r, _| enter(&app, &guest, r.slot, action.clone())).await
}
