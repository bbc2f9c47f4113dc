//! Problems: every answer that is not a success, in the form of RFC 9457 with a stable `code`.
//!
//! A handler returns a [`Problem`] without knowing who will read it; [`super::observe`] writes it out in the reader's
//! language.

use std::borrow::Cow;

use axum::response::{IntoResponse, Response};
use booking::room::Token;
use booking::{ProviderPayment, TicketId};
use hyper::StatusCode;
use hyper::header::RETRY_AFTER;
use jiff::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa::openapi::schema::{Object, ObjectBuilder, Type};

use super::language::Language;
use super::payments::PaymentView;
use super::queue_tokens::standing;
use super::tickets::TicketRef;
use crate::counter::Unserved;
use crate::desk::Turned;
use crate::rooms::Unheard;

macro_rules! codes {
    ($($variant:ident $code:literal $status:ident $title:literal,)*) => {
        /// What went wrong, for machines.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Code { $(#[doc = $title] $variant,)* }

        impl Code {
            /// All of them.
            const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The stable name.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $code,)* }
            }

            /// The status it comes with.
            pub fn status(self) -> StatusCode {
                match self { $(Self::$variant => StatusCode::$status,)* }
            }

            fn title(self) -> &'static str {
                match self { $(Self::$variant => $title,)* }
            }
        }
    };
}

codes! {
    InvalidRequest "invalid-request" UNPROCESSABLE_ENTITY "The request is not valid",
    Unauthenticated "unauthenticated" UNAUTHORIZED "Sign in first",
    Forbidden "forbidden" FORBIDDEN "Not allowed",
    NotFound "not-found" NOT_FOUND "Not found",
    MethodNotAllowed "method-not-allowed" METHOD_NOT_ALLOWED "Method not allowed",
    RequestInProgress "request-in-progress" CONFLICT "A request is in progress",
    AlreadyBooked "already-booked" CONFLICT "Already booked",
    NotEnoughPlaces "not-enough-places" CONFLICT "Not enough places",
    TableUnavailable "table-unavailable" CONFLICT "No table available",
    SeatTaken "seat-taken" CONFLICT "A seat is taken",
    TokenAlreadyIssued "token-already-issued" CONFLICT "A token has been issued already",
    QueueTokenRequired "queue-token-required" FORBIDDEN "A token that is inside is required",
    NotOpen "not-open" FORBIDDEN "Not open yet",
    IllegalTransition "illegal-transition" CONFLICT "Not possible in this state",
    InsufficientPoints "insufficient-points" CONFLICT "Not enough points",
    PaymentInProgress "payment-in-progress" CONFLICT "A payment is in progress",
    IdempotencyMismatch "idempotency-mismatch" UNPROCESSABLE_ENTITY "The key was used for another request",
    RateLimited "rate-limited" TOO_MANY_REQUESTS "Too many requests",
    LineFull "line-full" TOO_MANY_REQUESTS "The line is full",
    PayloadTooLarge "payload-too-large" PAYLOAD_TOO_LARGE "The request is too large",
    Unavailable "unavailable" SERVICE_UNAVAILABLE "Not available right now",
    Internal "internal" INTERNAL_SERVER_ERROR "Something went wrong",
}

/// A sentence in each language that we speak.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sentence {
    /// In English.
    pub en: Cow<'static, str>,
    /// In Korean.
    pub ko: Cow<'static, str>,
}

impl Sentence {
    /// The same in both languages.
    pub fn new(en: impl Into<Cow<'static, str>>, ko: impl Into<Cow<'static, str>>) -> Self {
        Self { en: en.into(), ko: ko.into() }
    }
}

/// A field that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct FieldError {
    /// Where it is: a JSON pointer into the body, or `?name` and `Name:` for a query parameter and a header.
    pub pointer: Cow<'static, str>,
    /// What to do about it.
    pub message: Cow<'static, str>,
}

/// An answer that is not a success.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// What went wrong, for machines.
    pub code: Code,
    /// What went wrong, for people.
    pub detail: Sentence,
    /// The fields that are wrong.
    pub errors: Vec<FieldError>,
    /// What is left.
    pub remaining: Option<u32>,
    /// The place in line that this is about.
    pub ticket: Option<TicketId>,
    /// When to come back, in seconds.
    pub retry_after: Option<u64>,
    /// The payment that this is about.
    pub payment: Option<Box<PaymentView>>,
    /// When the sale opens.
    pub opens_at: Option<Timestamp>,
    /// The place in the waiting room that this is about.
    pub queue: Option<QueuePlace>,
}

impl Problem {
    /// A problem with nothing more to say.
    pub fn new(code: Code, en: impl Into<Cow<'static, str>>, ko: impl Into<Cow<'static, str>>) -> Self {
        let detail = Sentence::new(en, ko);
        Self {
            code,
            detail,
            errors: Vec::new(),
            remaining: None,
            ticket: None,
            retry_after: None,
            payment: None,
            opens_at: None,
            queue: None,
        }
    }

    /// Fields of the request that are wrong.
    pub fn invalid(errors: Vec<FieldError>) -> Self {
        let mut problem = match errors.first() {
            Some(FieldError { pointer, message }) if errors.len() == 1 && !pointer.is_empty() => Self::new(
                Code::InvalidRequest,
                format!("{pointer} {message}."),
                format!("요청을 확인해 주세요: {pointer} {message}."),
            ),
            Some(FieldError { message, .. }) if errors.len() == 1 => Self::new(
                Code::InvalidRequest,
                format!("The request {message}."),
                format!("요청을 확인해 주세요: {message}."),
            ),
            _ => Self::new(
                Code::InvalidRequest,
                format!("{} fields are not valid; see errors.", errors.len()),
                format!("{}개 항목이 올바르지 않습니다. errors를 확인해 주세요.", errors.len()),
            ),
        };
        problem.errors = errors;
        problem
    }

    /// One field that is wrong.
    pub fn field(pointer: impl Into<Cow<'static, str>>, message: impl Into<Cow<'static, str>>) -> Self {
        Self::invalid(vec![FieldError { pointer: pointer.into(), message: message.into() }])
    }

    /// There is no such thing, or it is somebody else's.
    pub fn not_found(what: &'static str) -> Self {
        Self::new(Code::NotFound, format!("There is no such {what}."), "찾을 수 없습니다.")
    }

    /// Only the venue's staff may.
    pub fn forbidden() -> Self {
        Self::new(Code::Forbidden, "Only the staff of this venue may do that.", "매장 직원만 할 수 있습니다.")
    }

    /// No token, or not a good one.
    pub fn unauthenticated() -> Self {
        Self::new(
            Code::Unauthenticated,
            "Send `Authorization: Bearer TOKEN` with a token from POST /api/sessions.",
            "로그인이 필요합니다.",
        )
    }

    /// The store is in trouble.
    pub fn unavailable() -> Self {
        let en = "The server cannot store anything right now. Look at your ticket in a moment, or ask again with the same key.";
        let ko = "지금은 처리할 수 없습니다. 잠시 후 대기표를 확인하거나 같은 키로 다시 요청해 주세요.";
        Self { retry_after: Some(later(2)), ..Self::new(Code::Unavailable, en, ko) }
    }

    /// Our own fault.
    pub fn internal() -> Self {
        Self::new(
            Code::Internal,
            "Something went wrong on our side. Nothing was changed.",
            "서버 오류가 발생했습니다. 변경된 내용은 없습니다.",
        )
    }

    /// The same, about this ticket.
    pub fn about(mut self, ticket: TicketId) -> Self {
        self.ticket = Some(ticket);
        self
    }

    /// The same, about this payment.
    pub fn with_payment(mut self, payment: &ProviderPayment) -> Self {
        self.payment = Some(Box::new(payment.into()));
        self
    }

    /// The same, about this place in a waiting room.
    pub fn standing(mut self, token: &Token, ahead: Option<u64>) -> Self {
        self.queue = Some(QueuePlace { number: token.number, state: standing(token.state), ahead });
        self
    }

    /// As it is written on the wire.
    pub fn body(&self, language: Language) -> ProblemBody {
        ProblemBody {
            kind: format!("urn:maitred:problem:{}", self.code.as_str()),
            title: self.code.title(),
            status: self.code.status().as_u16(),
            detail: match language {
                Language::English => self.detail.en.clone(),
                Language::Korean => self.detail.ko.clone(),
            },
            code: self.code.as_str(),
            errors: self.errors.clone(),
            remaining: self.remaining,
            ticket: self.ticket.map(TicketRef::from),
            provider_payment: self.payment.clone(),
            opens_at: self.opens_at,
            queue: self.queue,
        }
    }
}

/// When to come back: so many seconds, and up to as many again, so that not everybody comes at once.
pub fn later(seconds: u64) -> u64 {
    seconds + rand::random_range(0..=seconds)
}

/// All codes, for those who read the document instead of this file.
fn code_schema() -> Object {
    let codes = Code::ALL.iter().map(|code| code.as_str());
    ObjectBuilder::new()
        .schema_type(Type::String)
        .enum_values(Some(codes))
        .description(Some("For machines: stable."))
        .build()
}

/// A problem in the form of RFC 9457.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = Problem)]
pub struct ProblemBody {
    #[serde(rename = "type")]
    kind: String,
    title: &'static str,
    status: u16,
    /// For people, in the language of `Accept-Language` (`en`, `ko`).
    #[schema(value_type = String)]
    detail: Cow<'static, str>,
    /// For machines: stable.
    #[schema(schema_with = code_schema)]
    code: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<FieldError>,
    #[serde(skip_serializing_if = "Option::is_none")]
    remaining: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ticket: Option<TicketRef>,
    /// The payment that is in progress.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(rename = "providerPayment")]
    #[schema(value_type = Option<PaymentView>)]
    provider_payment: Option<Box<PaymentView>>,
    #[serde(rename = "opensAt", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    opens_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    queue: Option<QueuePlace>,
}

/// A place in a waiting room, briefly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
pub struct QueuePlace {
    number: Option<u64>,
    /// `waiting`, `inside`, `done`, `left` or `lapsed`.
    state: &'static str,
    ahead: Option<u64>,
}

impl ProblemBody {
    /// The status it comes with.
    pub fn status(&self) -> u16 {
        self.status
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = self.code.status().into_response();
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(RETRY_AFTER, seconds.into());
        }
        response.extensions_mut().insert(self);
        response
    }
}

impl From<Unserved> for Problem {
    fn from(unserved: Unserved) -> Self {
        match unserved {
            Unserved::Line(refused) => super::reservations::turned(Turned::Line(refused)),
            Unserved::Died => Self::internal(),
        }
    }
}

impl From<Unheard> for Problem {
    fn from(unheard: Unheard) -> Self {
        match unheard {
            Unheard::NoRoom => Self::not_found("waiting room"),
            Unheard::Unserved(unserved) => unserved.into(),
            Unheard::Store(error) => error.into(),
        }
    }
}

impl From<store::Error> for Problem {
    fn from(error: store::Error) -> Self {
        tracing::warn!(%error, "the store did not answer");
        let mut problem = Self::unavailable();
        problem.detail = Sentence::new(
            "The database is not available right now.",
            "지금은 데이터베이스를 사용할 수 없습니다.",
        );
        problem
    }
}
