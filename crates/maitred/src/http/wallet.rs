//! The point wallet.

use std::sync::Arc;

use axum::extract::State;
use booking::Won;
use booking::wallet::{MAX_BALANCE, MAX_CHARGE, is_chargeable};
use hyper::StatusCode;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use store::{ChargeError, Entry};
use utoipa::ToSchema;

use super::App;
use super::extract::{Guest, IdempotencyKey, Json, Query};
use super::problem::{Code, Problem, ProblemBody};
use super::reservations::Cursor;
use super::views::List;
use crate::wallets::Uncharged;

/// What a wallet holds.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Wallet)]
pub struct WalletView {
    /// In points; one point is one won.
    balance: i64,
}

/// What one's wallet holds.
#[utoipa::path(get, path = "/api/wallet", tag = "wallet",
    responses((status = 200, body = WalletView), (status = 401, body = ProblemBody)))]
pub async fn balance(State(app): State<Arc<App>>, guest: Guest) -> Result<axum::Json<WalletView>, Problem> {
    Ok(axum::Json(WalletView { balance: app.store.balance(guest.id).await?.0 }))
}

/// How much to charge.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Charge {
    /// Between 1 and 10,000,000.
    amount: i64,
}

/// A movement in a wallet.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = WalletEntry)]
pub struct EntryView {
    id: String,
    /// Negative where it went out.
    amount: i64,
    /// What the wallet held then.
    balance: i64,
    /// `charge`, `payment` or `refund`.
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reservation_id: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    at: Timestamp,
}

impl From<&Entry> for EntryView {
    fn from(entry: &Entry) -> Self {
        Self {
            id: entry.id.to_string(),
            amount: entry.amount.0,
            balance: entry.balance.0,
            kind: entry.kind.as_str(),
            reservation_id: entry.reservation.map(|id| id.to_string()),
            at: entry.at,
        }
    }
}

/// Put points into one's wallet.
#[utoipa::path(post, path = "/api/wallet/charges", tag = "wallet", request_body = Charge,
    params(("Idempotency-Key" = Option<String>, Header, description = "The same key charges once.")),
    responses((status = 201, body = EntryView), (status = 422, body = ProblemBody), (status = 429, body = ProblemBody), (status = 503, body = ProblemBody)))]
pub async fn charge(
    State(app): State<Arc<App>>,
    guest: Guest,
    key: IdempotencyKey,
    Json { value: Charge { amount }, .. }: Json<Charge>,
) -> Result<(StatusCode, axum::Json<EntryView>), Problem> {
    if !is_chargeable(Won(amount)) {
        return Err(Problem::field("/amount", format!("must be between 1 and {MAX_CHARGE}")));
    }
    let key = key.0.map(String::from);
    let entry = app.wallets.charge(guest.id, Won(amount), key).await.map_err(|error| match error {
        Uncharged::Refused(ChargeError::TooMuch) => {
            Problem::field("/amount", format!("is too much: a wallet holds {MAX_BALANCE} at most"))
        }
        Uncharged::Refused(ChargeError::KeyUsed) => Problem::new(
            Code::IdempotencyMismatch,
            "This Idempotency-Key was used for another amount. Send a new key.",
            "다른 요청에 사용된 Idempotency-Key입니다.",
        ),
        Uncharged::Refused(ChargeError::Store(error)) => error.into(),
        Uncharged::Unserved(unserved) => unserved.into(),
    })?;
    Ok((StatusCode::CREATED, axum::Json(EntryView::from(&entry))))
}

/// The movements in one's wallet, newest first.
#[utoipa::path(get, path = "/api/wallet/entries", tag = "wallet", params(Cursor),
    responses((status = 200, body = List<EntryView>), (status = 401, body = ProblemBody)))]
pub async fn entries(
    State(app): State<Arc<App>>,
    guest: Guest,
    Query(Cursor { cursor }): Query<Cursor>,
) -> Result<axum::Json<List<EntryView>>, Problem> {
    let before = cursor.map(|cursor| cursor.parse()).transpose();
    let before = before.map_err(|_| Problem::field("?cursor", "must be what `next` said"))?;
    let page = app.store.wallet_entries(guest.id, before, 50).await?;
    Ok(axum::Json(List { items: page.items.iter().map(EntryView::from).collect(), next: page.next }))
}
