//! What travels between processes: requests that stand in shared lines, and answers to them. JSON, so that processes of
//! two versions understand each other during an upgrade, and people can read it.

use std::sync::Arc;

use booking::{Action, Command, Decision, Outcome, PersonId, Reservation, TicketId};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::desk::{Answer, Key, Settled, Ticket};

/// A request, as it stands in line.
#[derive(Serialize, Deserialize)]
struct Request<'a> {
    /// The process that took it and waits for the answer.
    #[serde(rename = "o")]
    origin: std::borrow::Cow<'a, str>,
    /// When it came, in milliseconds since 1970.
    at: i64,
    #[serde(rename = "p")]
    person: PersonId,
    /// Names it, however often it is sent.
    #[serde(rename = "q")]
    request: u64,
    #[serde(rename = "a")]
    action: std::borrow::Cow<'a, Action>,
    #[serde(rename = "k", default, skip_serializing_if = "Option::is_none")]
    key: Option<KeyText>,
}

/// An `Idempotency-Key`, and the hash of the body it came with.
#[derive(Serialize, Deserialize)]
struct KeyText {
    #[serde(rename = "t")]
    text: Box<str>,
    #[serde(rename = "b")]
    body: String,
}

/// A request in writing.
pub(super) fn write(
    origin: &str,
    at: Timestamp,
    person: PersonId,
    request: u64,
    action: &Action,
    key: Option<&Key>,
) -> String {
    use base64::Engine;
    let body = |key: &Key| base64::prelude::BASE64_URL_SAFE_NO_PAD.encode(key.body);
    let request = Request {
        origin: origin.into(),
        at: at.as_millisecond(),
        person,
        request,
        action: std::borrow::Cow::Borrowed(action),
        key: key.map(|key| KeyText { text: key.text.clone(), body: body(key) }),
    };
    // Plain data: writing it cannot fail.
    serde_json::to_string(&request).unwrap_or_default()
}

/// A request that stands in line, if this version understands it.
pub(super) fn read(ticket: TicketId, payload: &str) -> Option<Ticket> {
    use base64::Engine;
    let request: Request<'_> = serde_json::from_str(payload).ok()?;
    let key = match request.key {
        Some(key) => {
            let body = base64::prelude::BASE64_URL_SAFE_NO_PAD.decode(key.body).ok()?;
            Some(Key { text: key.text, body: body.try_into().ok()? })
        }
        None => None,
    };
    let entered_at = Timestamp::from_millisecond(request.at).ok()?;
    let (person, action) = (request.person, request.action.into_owned());
    let mut read = Ticket::new(Command { ticket, entered_at, person, action }, key, request.request);
    read.origin = Some(request.origin.into());
    Some(read)
}

/// An answer on its way to the process that waits for it.
#[derive(Serialize, Deserialize)]
pub(super) struct Said {
    #[serde(rename = "t")]
    pub(super) ticket: TicketId,
    #[serde(flatten)]
    how: How,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum How {
    Decided {
        #[serde(rename = "d")]
        decision: Decision,
        at: i64,
        #[serde(rename = "b")]
        batch: u64,
        #[serde(rename = "r", default, skip_serializing_if = "Option::is_none")]
        reservation: Option<Arc<Reservation>>,
    },
    Left {},
    KeyMismatch {},
    Failed {},
}

/// Answers in writing.
pub(super) fn said(answers: &[(TicketId, &Answer)]) -> String {
    let said: Vec<_> = answers.iter().map(|(ticket, answer)| Said::of(*ticket, answer)).collect();
    // Plain data: writing it cannot fail.
    serde_json::to_string(&said).unwrap_or_default()
}

/// Answers as they were written; `None` if this version cannot read them. The log then tells.
pub(super) fn heard(text: &str) -> Option<Vec<Said>> {
    serde_json::from_str(text).ok()
}

impl Said {
    fn of(ticket: TicketId, answer: &Answer) -> Self {
        let how = match answer {
            Answer::Decided(settled) => How::Decided {
                decision: settled.decision.clone(),
                at: settled.decided_at.as_millisecond(),
                batch: settled.batch,
                reservation: match &settled.outcome {
                    Outcome::Done(reservation) => Some(reservation.clone()),
                    Outcome::Noted | Outcome::Refused(_) => None,
                },
            },
            Answer::Left => How::Left {},
            Answer::KeyMismatch => How::KeyMismatch {},
            Answer::Failed => How::Failed {},
        };
        Self { ticket, how }
    }

    /// The answer; `None` if what was said makes no sense to this version. The log then tells.
    pub(super) fn answer(self) -> Option<Answer> {
        Some(match self.how {
            How::Decided { decision, at, batch, reservation } => {
                let outcome = match (decision.refused, reservation) {
                    (Some(refusal), _) => Outcome::Refused(refusal),
                    (None, Some(reservation)) => Outcome::Done(reservation),
                    (None, None) if decision.verdict.is_about_waitlist() => Outcome::Noted,
                    (None, None) => return None,
                };
                let decided_at = Timestamp::from_millisecond(at).ok()?;
                Answer::Decided(Box::new(Settled { outcome, decision, decided_at, batch }))
            }
            How::Left {} => Answer::Left,
            How::KeyMismatch {} => Answer::KeyMismatch,
            How::Failed {} => Answer::Failed,
        })
    }
}
