//! Payments with providers: what guests see of them, and what providers say about them.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use booking::{PaymentStatus, ProviderPayment, Refusal, Reservation, What};
use hyper::{HeaderMap, StatusCode};
use jiff::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

use super::App;
use super::extract::{Id, Raw};
use super::language;
use super::problem::{Problem, ProblemBody};
use super::views::ReservationView;
use crate::payments::Said;
use crate::payments::till::{Told, Unheard, Unrequested};

/// A payment with a provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Payment)]
pub struct PaymentView {
    id: String,
    provider: String,
    /// `READY`, `REQUESTED`, `PAID`, `FAILED` or `CANCELLED`.
    #[schema(value_type = String, example = "REQUESTED")]
    status: PaymentStatus,
    amount: i64,
    /// What the provider has taken, what of that it has returned, and what it is still to return.
    amount_captured: i64,
    amount_returned: i64,
    refund_due: i64,
    /// Where to pay; absent until the provider has said so.
    #[serde(skip_serializing_if = "Option::is_none")]
    checkout_url: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    deadline: Timestamp,
}

impl From<&ProviderPayment> for PaymentView {
    fn from(payment: &ProviderPayment) -> Self {
        let open = payment.status.is_open();
        Self {
            id: payment.id.to_string(),
            provider: payment.provider.to_string(),
            status: payment.status,
            amount: payment.amount.0,
            amount_captured: payment.captured.0,
            amount_returned: payment.returned().0,
            refund_due: payment.due().0,
            checkout_url: payment.checkout_url.as_ref().filter(|_| open).map(|url| url.to_string()),
            deadline: payment.deadline,
        }
    }
}

/// Answers a guest who has begun to pay: with a provider, with where to pay.
pub async fn begun(app: &App, reservation: &Reservation) -> Result<Response, Problem> {
    let view = ReservationView::from(reservation);
    let till = app.till();
    let Some(payment) = till.newest(reservation.id).await?.filter(|_| view.is_held()) else {
        return Ok(axum::Json(view).into_response());
    };
    if payment.status != PaymentStatus::Ready {
        return Ok(axum::Json(view.with_payment(&payment)).into_response());
    }
    match till.request(&payment).await {
        Ok(payment) => Ok(axum::Json(view.with_payment(&payment)).into_response()),
        Err(Unrequested::Refused | Unrequested::Gone) => Err(language::provider_refuses()),
        Err(Unrequested::Silent) => Err(language::provider_is_silent().with_payment(&payment)),
        Err(Unrequested::Unheard(unheard)) => Err(unheard.into()),
    }
}

/// The refusal of a second payment, with the first.
pub async fn in_progress(app: &App, reservation: booking::ReservationId, problem: Problem) -> Problem {
    match app.till().newest(reservation).await {
        Ok(Some(payment)) if payment.status.is_open() => problem.with_payment(&payment),
        _ => problem,
    }
}

/// What a payment provider says, signed as Standard Webhooks has it. Sent again until it is heard; heard once.
#[utoipa::path(post, path = "/api/payments/webhook/{provider}", tag = "payments",
    params(("provider" = String, Path), ("webhook-id" = String, Header), ("webhook-timestamp" = i64, Header),
           ("webhook-signature" = String, Header, description = "`v1,` and base64 of HMAC-SHA256 over `id.timestamp.body`; several with spaces between.")),
    request_body(content = Object, description = "`{type, data: {payment, amount, refund?}}`; other types are acknowledged and ignored."),
    responses((status = 204, description = "Heard, now or before"), (status = 401, body = ProblemBody),
              (status = 404, body = ProblemBody), (status = 413, body = ProblemBody), (status = 422, body = ProblemBody),
              (status = 503, description = "Send it again", body = ProblemBody)))]
pub async fn webhook(
    State(app): State<Arc<App>>,
    Id(provider): Id<String>,
    headers: HeaderMap,
    Raw(body): Raw,
) -> Result<StatusCode, Problem> {
    let outside = app.payments.outside(&provider).ok_or_else(|| Problem::not_found("provider"))?;
    let event = outside.hear(&headers, &body, app.clock.now()).map_err(|why| {
        tracing::warn!(%provider, %why, "an event was not heard");
        count(&provider, "unsigned");
        language::unsigned(why)
    })?;
    let (payment, what) = match event.said {
        Said::Paid { payment, amount } => (payment, What::Paid { amount }),
        Said::Failed(payment) => (payment, What::Failed),
        Said::Cancelled(payment) => (payment, What::Cancelled),
        Said::Returned { payment, refund, amount } => {
            is_as_asked(&app, payment, refund, amount).await?;
            (payment, What::Returned { refund })
        }
        Said::Nothing => {
            count(&provider, "ignored");
            return Ok(StatusCode::NO_CONTENT);
        }
    };
    let told = app.till().tell(&provider, payment, what, Some(&event.id)).await?;
    let outcome = match told {
        Told::Done => "done",
        Told::Refused(Refusal::Repeated) => "repeated",
        Told::Refused(refusal) => {
            tracing::warn!(%payment, %provider, ?refusal, "money that bought nothing goes back");
            "refused"
        }
        Told::Unknown => {
            tracing::warn!(%payment, %provider, "an event is about a payment that is not known");
            "unknown"
        }
    };
    count(&provider, outcome);
    Ok(StatusCode::NO_CONTENT)
}

/// A refund of another amount than was asked for is nothing that we know of.
async fn is_as_asked(
    app: &App,
    payment: booking::PaymentId,
    refund: booking::RefundId,
    amount: Option<booking::Won>,
) -> Result<(), Problem> {
    let stored = app.store.payment(payment).await?;
    let asked = stored.and_then(|stored| stored.refunds.iter().find(|r| r.id == refund).map(|r| r.amount));
    match (asked, amount) {
        (Some(asked), Some(amount)) if asked != amount => {
            tracing::error!(%payment, %refund, asked = asked.0, amount = amount.0, "a provider has returned another amount");
            Err(Problem::field("/data/amount", "is not what was to be returned"))
        }
        _ => Ok(()),
    }
}

fn count(provider: &str, outcome: &'static str) {
    let provider = provider.to_owned();
    metrics::counter!("maitred_payment_events_total", "provider" => provider, "outcome" => outcome)
        .increment(1);
}

impl From<Unheard> for Problem {
    fn from(unheard: Unheard) -> Self {
        match unheard {
            Unheard::Store(error) => error.into(),
            Unheard::Busy => Problem::unavailable(),
        }
    }
}
