//! Accounts and sessions.

use std::sync::Arc;

use axum::extract::State;
use hyper::StatusCode;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use store::{Account, AccountError};
use utoipa::ToSchema;

use super::App;
use super::extract::{Guest, Json};
use super::problem::{Code, FieldError, Problem, ProblemBody, later};
use crate::fresh;
use crate::passwords::Crowded;
use crate::signing::Claims;

/// A new account.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SignUp {
    email: String,
    /// Between 8 and 128 characters.
    password: String,
    name: String,
}

/// An account.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Account)]
pub struct AccountView {
    id: String,
    email: String,
    name: String,
}

impl From<Crowded> for Problem {
    fn from(Crowded: Crowded) -> Self {
        let (en, ko) = ("Too many people are signing in. Come back in a moment.", "로그인 요청이 많습니다.");
        Problem { retry_after: Some(later(2)), ..Problem::new(Code::RateLimited, en, ko) }
    }
}

/// Make an account.
#[utoipa::path(post, path = "/api/accounts", tag = "accounts", request_body = SignUp,
    responses((status = 201, body = AccountView), (status = 422, body = ProblemBody)))]
pub async fn sign_up(
    State(app): State<Arc<App>>,
    Json { value: SignUp { email, password, name }, .. }: Json<SignUp>,
) -> Result<(StatusCode, axum::Json<AccountView>), Problem> {
    let (email, name) = (email.trim().to_owned(), name.trim().to_owned());
    let checks = [
        (is_address(&email), "/email", "is not an e-mail address"),
        (
            (8..=128).contains(&password.chars().count()),
            "/password",
            "must have between 8 and 128 characters",
        ),
        ((1..=100).contains(&name.chars().count()), "/name", "must have between 1 and 100 characters"),
    ];
    let wrong = checks.into_iter().filter(|(fine, ..)| !fine);
    let errors: Vec<_> = wrong
        .map(|(_, pointer, message)| FieldError { pointer: pointer.into(), message: message.into() })
        .collect();
    if !errors.is_empty() {
        return Err(Problem::invalid(errors));
    }
    let now = app.clock.now();
    let password_hash = app.passwords.hash(password).await?;
    let account = Account { id: fresh::person_id(now), email, name, password_hash };
    app.store.add_account(account.clone(), now).await.map_err(|error| match error {
        AccountError::EmailTaken => {
            Problem::field("/email", "belongs to an account already; sign in instead")
        }
        AccountError::Store(error) => error.into(),
    })?;
    let Account { id, email, name, .. } = account;
    Ok((StatusCode::CREATED, axum::Json(AccountView { id: id.to_string(), email, name })))
}

fn is_address(email: &str) -> bool {
    let Some((user, host)) = email.split_once('@') else { return false };
    let plain = email.chars().all(|c| !c.is_whitespace() && !c.is_control());
    plain
        && !user.is_empty()
        && host.len() >= 3
        && host.contains('.')
        && !host.contains('@')
        && email.len() <= 254
}

/// Who signs in.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SignIn {
    email: String,
    password: String,
}

/// A session.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Session {
    /// Send it as `Authorization: Bearer …`.
    access_token: String,
    #[schema(value_type = String, format = DateTime)]
    expires_at: Timestamp,
}

/// Sign in.
#[utoipa::path(post, path = "/api/sessions", tag = "accounts", request_body = SignIn,
    responses((status = 200, body = Session), (status = 401, body = ProblemBody), (status = 429, body = ProblemBody)))]
pub async fn sign_in(
    State(app): State<Arc<App>>,
    Json { value: SignIn { email, password }, .. }: Json<SignIn>,
) -> Result<axum::Json<Session>, Problem> {
    let account = app.store.account_by_email(email.trim().to_owned()).await?;
    let hash = account.as_ref().map(|account| account.password_hash.clone());
    let fits = app.passwords.verify(password, hash).await?;
    let Some(account) = account.filter(|_| fits) else {
        let (en, ko) = ("E-mail or password is wrong.", "이메일 또는 비밀번호가 올바르지 않습니다.");
        return Err(Problem::new(Code::Unauthenticated, en, ko));
    };
    let lifetime = SignedDuration::try_from(app.token_lifetime).unwrap_or(SignedDuration::from_hours(1));
    let expires_at = app.clock.now().saturating_add(lifetime).unwrap_or(Timestamp::MAX);
    let claims = Claims { sub: account.id, name: account.name, exp: expires_at.as_second() };
    Ok(axum::Json(Session { access_token: app.signer.sign(&claims), expires_at }))
}

/// Who is signed in.
#[derive(Debug, Serialize, ToSchema)]
pub struct Myself {
    id: String,
    name: String,
    /// The venues that they run.
    runs: Vec<String>,
}

/// Who one is, and which venues one runs.
#[utoipa::path(get, path = "/api/accounts/me", operation_id = "myself", tag = "accounts",
    responses((status = 200, body = Myself), (status = 401, body = ProblemBody)))]
pub async fn own(State(app): State<Arc<App>>, guest: Guest) -> Result<axum::Json<Myself>, Problem> {
    let venues = app.store.venues().await?;
    let runs = venues.iter().filter(|venue| venue.is_staff(guest.id)).map(|venue| venue.id.to_string());
    Ok(axum::Json(Myself { id: guest.id.to_string(), name: guest.name.to_string(), runs: runs.collect() }))
}
