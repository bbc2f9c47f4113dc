//! What handlers take out of a request: who asks, what for, and how. Each wrong one is a problem with the same form.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRef, FromRequest, FromRequestParts, Request};
use booking::PersonId;
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Body as _;
use hyper::header::AUTHORIZATION;
use hyper::http::request::Parts;
use jiff::civil::Date;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};

use super::App;
use super::problem::{Code, Problem};
use crate::desk::Key;
use crate::signing::Claims;

/// The largest body that anybody needs.
pub const BODY_LIMIT: usize = 64 * 1_024;
/// How long a body may take to arrive.
const BODY_PATIENCE: Duration = Duration::from_secs(10);

/// Somebody who has shown a good token.
#[derive(Debug, Clone)]
pub struct Guest {
    /// Who.
    pub id: PersonId,
    /// What they are called.
    pub name: Arc<str>,
}

impl<S> FromRequestParts<S> for Guest
where
    Arc<App>: FromRef<S>,
    S: Sync,
{
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let app = Arc::<App>::from_ref(state);
        let header = parts.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let token =
            header.and_then(|value| value.split_once(' ')).filter(|(s, _)| s.eq_ignore_ascii_case("bearer"));
        let (_, token) = token.ok_or_else(Problem::unauthenticated)?;
        let claims: Option<Claims> = app.signer.verify(token.trim(), app.clock.now()).await;
        claims
            .map(|claims| Self { id: claims.sub, name: claims.name.into() })
            .ok_or_else(Problem::unauthenticated)
    }
}

/// A body as it came, byte for byte.
pub struct Raw(pub Bytes);

impl<S: Send + Sync> FromRequest<S> for Raw {
    type Rejection = Problem;

    async fn from_request(request: Request<Body>, _: &S) -> Result<Self, Problem> {
        bytes_of(request).await.map(Self)
    }
}

/// A body that is neither too large nor too slow.
async fn bytes_of(request: Request<Body>) -> Result<Bytes, Problem> {
    let too_large = || {
        Problem::new(
            Code::PayloadTooLarge,
            "The body is larger than 64 KiB.",
            "요청 본문이 64 KiB보다 큽니다.",
        )
    };
    let collecting = Limited::new(request.into_body(), BODY_LIMIT).collect();
    match tokio::time::timeout(BODY_PATIENCE, collecting).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(_)) => Err(Problem::field("", "broke off before it was complete")),
        Err(_) => Err(Problem::field("", "took longer than 10 s to arrive")),
    }
}

/// A JSON body.
pub struct Json<T> {
    /// What it says.
    pub value: T,
    /// The bytes that say it.
    pub bytes: Bytes,
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Json<T> {
    type Rejection = Problem;

    async fn from_request(request: Request<Body>, _: &S) -> Result<Self, Problem> {
        let bytes = bytes_of(request).await?;
        let mut deserializer = serde_json::Deserializer::from_slice(&bytes);
        let value =
            serde_path_to_error::deserialize(&mut deserializer).map_err(|error| misread("", &error))?;
        deserializer.end().map_err(|error| Problem::field("", format!("is not one JSON value: {error}")))?;
        match text_with_nul(&bytes) {
            Some(pointer) => Err(Problem::field(pointer, "must not contain the character U+0000")),
            None => Ok(Self { value, bytes }),
        }
    }
}

/// Where the body has a text with the one character that PostgreSQL cannot keep. Another one in its place would be a text that
/// nobody wrote.
fn text_with_nul(body: &[u8]) -> Option<String> {
    // JSON has one way to write it, and hardly a body does: only then is it worth reading again.
    const WRITTEN: &[u8] = br"\u0000";
    if !body.windows(WRITTEN.len()).any(|bytes| bytes == WRITTEN) {
        return None;
    }
    below(String::new(), &serde_json::from_slice(body).ok()?)
}

fn below(pointer: String, value: &serde_json::Value) -> Option<String> {
    use serde_json::Value;
    match value {
        Value::String(text) => text.contains('\0').then_some(pointer),
        Value::Array(items) => {
            items.iter().enumerate().find_map(|(index, item)| below(format!("{pointer}/{index}"), item))
        }
        Value::Object(members) => {
            members.iter().find_map(|(name, member)| below(format!("{pointer}/{name}"), member))
        }
        _ => None,
    }
}

/// What was not understood, below this place in the body.
pub fn misread(below: &str, error: &serde_path_to_error::Error<serde_json::Error>) -> Problem {
    let mut pointer = below.to_owned();
    for segment in error.path() {
        use serde_path_to_error::Segment;
        match segment {
            Segment::Seq { index } => pointer.push_str(&format!("/{index}")),
            Segment::Map { key } => pointer.push_str(&format!("/{key}")),
            Segment::Enum { .. } | Segment::Unknown => {}
        }
    }
    let message = error.inner().to_string();
    // The position in the bytes is noise once the pointer tells the place.
    let message = match message.rsplit_once(" at line ") {
        Some((message, _)) if !pointer.is_empty() => message.to_owned(),
        _ => message,
    };
    Problem::field(pointer, format!("is not as expected: {message}"))
}

/// No body, or an empty object: there is nothing to say.
pub struct Nothing;

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct EmptyObject {}

impl<S: Send + Sync> FromRequest<S> for Nothing {
    type Rejection = Problem;

    async fn from_request(request: Request<Body>, state: &S) -> Result<Self, Problem> {
        if request.body().is_end_stream() {
            return Ok(Self);
        }
        Json::<EmptyObject>::from_request(request, state).await.map(|_| Self)
    }
}

/// A path parameter as an id. What does not parse is nobody's id.
pub struct Id<T>(pub T);

impl<T: std::str::FromStr, S: Send + Sync> FromRequestParts<S> for Id<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let path = axum::extract::Path::<String>::from_request_parts(parts, state).await;
        let id = path.ok().and_then(|path| path.0.parse().ok());
        id.map(Self).ok_or_else(|| Problem::not_found("thing"))
    }
}

/// Query parameters, as strictly read as a body.
pub struct Query<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match axum::extract::Query::<T>::from_request_parts(parts, state).await {
            Ok(query) => Ok(Self(query.0)),
            Err(rejection) => {
                Err(Problem::field("", format!("has a wrong query: {}", rejection.body_text())))
            }
        }
    }
}

/// `Prefer: wait=N`: how long to wait in the call.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// How long.
    pub wait: Duration,
    /// The seconds that were asked for and are honoured.
    pub applied: Option<u64>,
}

impl<S: Send + Sync> FromRequestParts<S> for Patience {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let headers = parts.headers.get_all("prefer").iter().filter_map(|value| value.to_str().ok());
        let preferences = headers.flat_map(|value| value.split([',', ';'])).map(str::trim);
        let asked = preferences.filter_map(|preference| preference.strip_prefix("wait=")).next();
        // A preference that makes no sense is ignored, as RFC 7240 wants it.
        let applied =
            asked.and_then(|seconds| seconds.trim_matches('"').parse::<u64>().ok()).map(|n| n.min(10));
        Ok(Self { wait: Duration::from_secs(applied.unwrap_or(2)), applied })
    }
}

/// `Idempotency-Key`, if there is one.
pub struct IdempotencyKey(pub Option<Box<str>>);

impl IdempotencyKey {
    /// The key together with what it was sent for.
    pub fn with_body(self, body: &[u8]) -> Option<Key> {
        self.0.map(|text| Key { text, body: Sha256::digest(body).into() })
    }
}

impl<S: Send + Sync> FromRequestParts<S> for IdempotencyKey {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let Some(value) = parts.headers.get("idempotency-key") else { return Ok(Self(None)) };
        let text = value.to_str().ok().filter(|text| (1..=255).contains(&text.trim().len()));
        let message = "must have between 1 and 255 visible ASCII characters";
        text.map(|text| Self(Some(text.into()))).ok_or_else(|| Problem::field("Idempotency-Key:", message))
    }
}

/// A date as the contract writes it.
pub fn date(text: &str) -> Option<Date> {
    let shaped = text.len() == 10
        && text.bytes().enumerate().all(|(i, b)| match i {
            4 | 7 => b == b'-',
            _ => b.is_ascii_digit(),
        });
    text.parse().ok().filter(|_| shaped)
}
