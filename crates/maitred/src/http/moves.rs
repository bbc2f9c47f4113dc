//! Moving a place in line to another device (D1): a code that works once, for ten minutes, and what whoever brings it gets
//! for it: a token that is good for this place and for nothing else of the account.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{FromRef, FromRequestParts, State};
use booking::{PersonId, TicketId};
use fairlane::Claim as Claimed;
use hyper::StatusCode;
use hyper::header::AUTHORIZATION;
use hyper::http::request::Parts;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::App;
use super::extract::{Guest, Id, Json};
use super::problem::{Problem, ProblemBody};
use super::tickets::{self, TicketRef};
use crate::signing::Claim;

/// How long a code is good.
const GOOD_FOR: SignedDuration = SignedDuration::from_mins(10);

/// What a code says: which place, until when, and for whom. Written briefly: people scan it from a screen.
#[derive(Serialize, Deserialize)]
struct Code {
    #[serde(rename = "t")]
    ticket: TicketId,
    /// The only one who can use it, if anybody in particular.
    #[serde(rename = "p", default, skip_serializing_if = "Option::is_none")]
    to: Option<PersonId>,
    #[serde(rename = "e")]
    exp: i64,
    #[serde(rename = "n")]
    once: u32,
}

/// What a token for one place says.
#[derive(Serialize, Deserialize)]
struct Pass {
    ticket: TicketId,
    owner: PersonId,
    exp: i64,
}

impl Claim for Code {
    const PURPOSE: &'static str = "move";

    fn is_good_at(&self, second: i64) -> bool {
        second < self.exp
    }
}

impl Claim for Pass {
    const PURPOSE: &'static str = "pass";

    fn is_good_at(&self, second: i64) -> bool {
        second < self.exp
    }
}

/// Somebody who may ask about a place in line: its owner, or whoever brought it to another device.
pub struct Holder {
    /// As whom they ask.
    pub guest: Guest,
    only: Option<TicketId>,
}

impl Holder {
    /// Whether this place is any of their business.
    pub fn may(&self, ticket: TicketId) -> bool {
        self.only.is_none_or(|only| only == ticket)
    }
}

impl<S> FromRequestParts<S> for Holder
where
    Arc<App>: FromRef<S>,
    S: Sync,
{
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let app = Arc::<App>::from_ref(state);
        let header = parts.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let token = header.and_then(|value| value.split_once(' ')).map(|(_, token)| token.trim());
        let pass = match token {
            Some(token) => app.signer.verify::<Pass>(token, app.clock.now()).await,
            None => None,
        };
        match pass {
            // Nothing is booked with it, so no name is put on anything.
            Some(Pass { ticket, owner, .. }) => {
                Ok(Self { guest: Guest { id: owner, name: Arc::default() }, only: Some(ticket) })
            }
            None => Ok(Self { guest: Guest::from_request_parts(parts, state).await?, only: None }),
        }
    }
}

/// For whom the code is to be.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MoveRequest {
    /// The e-mail address of the only person who can use it; whoever has it, if left out.
    person: Option<String>,
}

/// A code that moves a place.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct MoveCode {
    /// Works once. Hand it on in a way that leaves no trace in logs: not in a path or a query.
    code: String,
    #[schema(value_type = String, format = DateTime)]
    expires_at: Timestamp,
}

/// Make a code that moves one's place in line to another device, of one's own or of a named person.
#[utoipa::path(post, path = "/api/tickets/{id}/move", operation_id = "move_ticket", tag = "tickets",
    params(("id" = String, Path)), request_body = MoveRequest,
    responses((status = 201, body = MoveCode), (status = 404, body = ProblemBody), (status = 422, body = ProblemBody)))]
pub async fn offer(
    State(app): State<Arc<App>>,
    guest: Guest,
    Id(ticket): Id<TicketId>,
    Json { value: MoveRequest { person }, .. }: Json<MoveRequest>,
) -> Result<(StatusCode, axum::Json<MoveCode>), Problem> {
    let holder = Holder { guest, only: None };
    tickets::own(&app, &holder, ticket).await?;
    let to = match person {
        Some(email) => {
            let account = app.store.account_by_email(email.trim().to_owned()).await?;
            Some(account.ok_or_else(|| Problem::field("/person", "has no account here"))?.id)
        }
        None => None,
    };
    let expires_at = app.clock.now().saturating_add(GOOD_FOR).unwrap_or(Timestamp::MAX);
    let code = Code { ticket, to, exp: expires_at.as_second(), once: rand::random() };
    let code = app.signer.sign(&code);
    Ok((StatusCode::CREATED, axum::Json(MoveCode { code, expires_at })))
}

/// A code that somebody brings.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Redemption {
    code: String,
}

/// A place that has come to this device.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Moved {
    ticket: TicketRef,
    /// Good for this place only: to look, listen and leave, and to see and pay the reservation that it wins.
    access_token: String,
    #[schema(value_type = String, format = DateTime)]
    expires_at: Timestamp,
}

fn spent() -> Problem {
    let mut problem = Problem::not_found("code");
    problem.detail = super::problem::Sentence::new(
        "This code is not good any more: it works once, for ten minutes. Make a new one.",
        "더 이상 쓸 수 없는 코드입니다. 10분 동안 한 번만 쓸 수 있습니다.",
    );
    problem
}

/// Bring a place in line to this device.
#[utoipa::path(post, path = "/api/moves", operation_id = "redeem_move", tag = "tickets", request_body = Redemption,
    responses((status = 200, body = Moved), (status = 401, body = ProblemBody), (status = 404, body = ProblemBody),
              (status = 503, body = ProblemBody)))]
pub async fn redeem(
    State(app): State<Arc<App>>,
    guest: Result<Guest, Problem>,
    Json { value: Redemption { code }, .. }: Json<Redemption>,
) -> Result<axum::Json<Moved>, Problem> {
    let now = app.clock.now();
    let code = app.signer.verify::<Code>(&code, now).await;
    let Code { ticket, to, once, .. } = code.ok_or_else(spent)?;
    if let Some(to) = to
        && guest?.id != to
    {
        return Err(spent());
    }
    let owner = tickets::owner(&app, ticket).await?.ok_or_else(spent)?;
    // Set if absent, by an owner of its own each time: the second one to come finds it set.
    let used = app.coordination.guard(&format!("move:{ticket}:{once:x}"));
    let by = format!("{:x}", rand::random::<u64>());
    match used.claim(&by, Duration::from_secs(GOOD_FOR.as_secs().unsigned_abs())).await {
        Ok(Claimed::Claimed) => {}
        Ok(Claimed::Held { .. }) => return Err(spent()),
        Err(error) => {
            tracing::warn!(%error, "a code cannot be used up just now");
            return Err(Problem::unavailable());
        }
    }
    let lifetime = SignedDuration::try_from(app.token_lifetime).unwrap_or(SignedDuration::from_hours(1));
    let expires_at = now.saturating_add(lifetime).unwrap_or(Timestamp::MAX);
    let pass = Pass { ticket, owner, exp: expires_at.as_second() };
    let access_token = app.signer.sign(&pass);
    Ok(axum::Json(Moved { ticket: ticket.into(), access_token, expires_at }))
}
