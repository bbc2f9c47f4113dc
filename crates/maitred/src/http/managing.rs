//! What can be done about a reservation: pay, cancel and change it by its guest; complete, no-show, refund and cancel it
//! by the venue. All of it goes through the slot's lane, ahead of those who want a place.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use booking::policy::CancelledBy;
use booking::venue::MAX_PARTY;
use booking::{Action, Outcome, Refusal, Reservation, ReservationId, SlotId, Status, TicketId, Verdict, Won};
use hyper::HeaderMap;
use serde::Deserialize;
use utoipa::ToSchema;

use super::App;
use super::extract::{Guest, Id, Json, Nothing};
use super::gate;
use super::language::{self, Language};
use super::moves::Holder;
use super::payments::{begun, in_progress};
use super::problem::{Code, Problem, ProblemBody};
use super::reservations::{in_line, slot, turned, venue};
use super::tickets::TicketView;
use super::views::ReservationView;
use crate::desk::{Answer, Found, Turned, Waited};

/// How long somebody who has a place waits in the call.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// A reservation that moves to another slot while it is being asked about is followed so often.
const FOLLOW: usize = 4;

type Answered = Result<Response, Problem>;

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

/// What came of it.
enum Managed {
    Done(Arc<Reservation>),
    /// The line is long: the ticket keeps the place.
    InLine(Response),
}

impl IntoResponse for Managed {
    fn into_response(self) -> Response {
        match self {
            Self::Done(reservation) => {
                axum::Json(ReservationView::from(reservation.as_ref())).into_response()
            }
            Self::InLine(response) => response,
        }
    }
}

/// Does something about a reservation, in the lane of the slot where it is wanted. A reservation that has moved, run out
/// or has something else done about it in the meantime is looked at again. What is gated needs a token where the venue has a
/// waiting room.
async fn manage(
    app: &App,
    guest: &Guest,
    id: ReservationId,
    role: Role,
    gated: Option<&HeaderMap>,
    wanted: impl Fn(&Reservation, CancelledBy) -> (SlotId, Action),
) -> Result<Managed, Problem> {
    let mut last = Problem::unavailable();
    for _ in 0..FOLLOW {
        let (reservation, by) = find(app, guest, id, role).await?;
        // An offer comes to people wherever they are: nobody has to go inside for it again.
        if let Some(headers) = gated.filter(|_| !reservation.offered) {
            gate::pass_again(app, guest, reservation.slot.venue(), headers).await?;
        }
        let (slot, action) = wanted(&reservation, by);
        let verdict = action.verdict();
        let ticket = match app.admission.manage(slot, guest.id, action).await {
            Ok(ticket) => ticket,
            Err(Turned::InProgress(first)) => {
                last = after(app, first, verdict).await?;
                continue;
            }
            Err(reason) => return Err(turned(reason)),
        };
        let settled = match ticket.wait(PATIENCE).await {
            Waited::Answered(Answer::Decided(settled)) => settled,
            Waited::Answered(_) => return Err(Problem::internal().about(ticket.id())),
            Waited::Stalled => return Err(Problem::unavailable().about(ticket.id())),
            Waited::StillWaiting => {
                return Ok(Managed::InLine(in_line(app, &ticket, Language::default()).await));
            }
        };
        let refusal = match &settled.outcome {
            Outcome::Done(done) => {
                // What a provider is to return is asked for at once.
                if done.refund_due > Won::ZERO {
                    app.payments.wake();
                }
                return Ok(Managed::Done(done.clone()));
            }
            Outcome::Noted => return Err(Problem::internal().about(ticket.id())),
            Outcome::Refused(refusal) => *refusal,
        };
        last = language::refusal(refusal).about(ticket.id());
        let ran_out = matches!(refusal, Refusal::IllegalTransition { from: Status::Expired, .. });
        if refusal != Refusal::Elsewhere && !(ran_out && verdict == Verdict::Pay) {
            return Err(last);
        }
    }
    Err(last)
}

/// Waits for what is being done about the same reservation. Only a second payment is refused at once.
async fn after(app: &App, first: TicketId, verdict: Verdict) -> Result<Problem, Problem> {
    let Some(Found::InMemory(ticket)) = app.desk.find(first).await? else {
        return Ok(turned(Turned::InProgress(first)));
    };
    let pays = |verdict| matches!(verdict, Verdict::Pay | Verdict::Reseat | Verdict::StartPayment);
    if pays(verdict) && pays(ticket.command.action.verdict()) {
        let (en, ko) = ("This reservation is being paid already.", "이미 결제가 진행 중입니다.");
        return Err(Problem::new(Code::PaymentInProgress, en, ko).about(first));
    }
    ticket.wait(PATIENCE).await;
    Ok(turned(Turned::InProgress(first)))
}

/// How to pay.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PaymentRequest {
    /// `points`: out of the wallet. Or the name of a payment provider, who is then paid at `payment.checkoutUrl`.
    #[schema(example = "points")]
    method: String,
}

/// Pay a reservation. A payment that comes too late takes a new place if one is left, as a new reservation, and costs
/// nothing if not. With a provider, the place is kept until the payment's deadline.
#[utoipa::path(post, path = "/api/reservations/{id}/payment", tag = "reservations", params(("id" = String, Path)),
    request_body = PaymentRequest,
    responses((status = 200, body = ReservationView), (status = 202, body = TicketView), (status = 404, body = ProblemBody), (status = 409, body = ProblemBody)))]
pub async fn pay(
    State(app): State<Arc<App>>,
    holder: Holder,
    Id(id): Id<ReservationId>,
    headers: HeaderMap,
    Json { value: request, .. }: Json<PaymentRequest>,
) -> Answered {
    let found = app.store.reservation(id).await?;
    if found.is_none_or(|reservation| !holder.may(reservation.ticket)) {
        return Err(Problem::not_found("reservation"));
    }
    pay_with(&app, &holder.guest, id, &request.method, &headers).await
}

/// Pays by the method of this name.
pub async fn pay_with(
    app: &App,
    guest: &Guest,
    id: ReservationId,
    method: &str,
    headers: &HeaderMap,
) -> Answered {
    let Some(provider) = app.payments.named(method) else {
        let known = app.payments.names().join(", ");
        return Err(Problem::field("/method", format!("must be one of: {known}")));
    };
    let managed = manage(app, guest, id, Role::Guest, Some(headers), |reservation, _| {
        (reservation.slot, provider.begin(reservation, app.clock.now()))
    });
    match managed.await {
        Ok(Managed::Done(reservation)) if provider.outside().is_some() => begun(app, &reservation).await,
        Ok(managed) => {
            if let Managed::Done(paid) = &managed {
                // Whoever has paid is done in the waiting room: the next is let in.
                app.rooms.left(paid.slot.venue());
            }
            Ok(managed.into_response())
        }
        Err(problem) if problem.code == Code::PaymentInProgress => Err(in_progress(app, id, problem).await),
        Err(problem) => Err(problem),
    }
}

/// Cancel a reservation: by its guest, with a refund by how early it is; by the venue's staff, with all of it.
#[utoipa::path(post, path = "/api/reservations/{id}/cancel", tag = "reservations", params(("id" = String, Path)),
    responses((status = 200, body = ReservationView), (status = 202, body = TicketView), (status = 404, body = ProblemBody), (status = 409, body = ProblemBody)))]
pub async fn cancel(
    State(app): State<Arc<App>>,
    guest: Guest,
    Id(id): Id<ReservationId>,
    Nothing: Nothing,
) -> Answered {
    give_up(&app, &guest, id).await
}

/// Gives a reservation up, by its guest or by the venue.
pub async fn give_up(app: &App, guest: &Guest, id: ReservationId) -> Answered {
    let managed = manage(app, guest, id, Role::GuestOrStaff, None, |reservation, by| {
        (reservation.slot, Action::Cancel { reservation: id, by })
    });
    Ok(managed.await?.into_response())
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
    responses((status = 200, body = ReservationView), (status = 202, body = TicketView), (status = 404, body = ProblemBody), (status = 409, body = ProblemBody),
              (status = 422, body = ProblemBody)))]
pub async fn change(
    State(app): State<Arc<App>>,
    guest: Guest,
    Id(id): Id<ReservationId>,
    headers: HeaderMap,
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
    let managed = manage(&app, &guest, id, Role::Guest, Some(&headers), |now, _| {
        let party = request.party_size.unwrap_or(now.party);
        let action = match now.slot == target {
            true => Action::Change { reservation: id, party },
            false => Action::Move { reservation: id, party },
        };
        (target, action)
    });
    Ok(managed.await?.into_response())
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
    let wanted = |r: &Reservation, _| (r.slot, Action::Complete { reservation: id });
    Ok(manage(&app, &guest, id, Role::Staff, None, wanted).await?.into_response())
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
    let wanted = |r: &Reservation, _| (r.slot, Action::NoShow { reservation: id });
    Ok(manage(&app, &guest, id, Role::Staff, None, wanted).await?.into_response())
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
    let wanted = |r: &Reservation, _| (r.slot, Action::Refund { reservation: id });
    Ok(manage(&app, &guest, id, Role::Staff, None, wanted).await?.into_response())
}
