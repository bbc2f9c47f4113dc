//! What an answer means to a guest.

use crate::record::Seating;
use crate::said::Said;

/// What the server said.
#[derive(Debug)]
pub(crate) enum Answer {
    /// There is a reservation.
    Seated(Box<Seating>, Option<(u32, u64)>),
    /// There is none, and will be none.
    Refused(&'static str, Option<(u32, u64)>),
    /// A place in line, which is kept.
    InLine(Box<str>, Option<(u32, u64)>),
    /// Still waiting.
    Waiting,
    /// Out of the line, as wished.
    Left,
    /// Come back, in so many seconds where that was said.
    Again(Option<u64>),
    /// The venue has a waiting room; first a place there.
    RoomFirst,
    /// The server knows nothing of it: it died and took its lines along.
    Forgotten,
    /// What the contract does not have.
    Strange(Box<str>),
}

/// Refusals that a guest who asks for a place can get.
const REFUSALS: [&str; 6] = [
    "not-enough-places",
    "already-booked",
    "table-unavailable",
    "seat-taken",
    "not-open",
    "request-in-progress",
];

fn refusal(code: &str) -> Option<&'static str> {
    REFUSALS.into_iter().find(|known| *known == code)
}

impl Answer {
    /// The answer to the wish itself.
    pub fn to_wish(status: u16, retry_after: Option<u64>, body: &[u8]) -> Self {
        let Some(said) = Said::read(body) else { return Self::Strange(strange(status, body)) };
        let place = said.place();
        match (status, said.code()) {
            (201, _) => Self::Seated(Box::new(seating(&said)), place),
            (202, _) => match &said.id {
                Some(id) => Self::InLine((&**id).into(), place),
                None => Self::Again(retry_after),
            },
            (409, "request-in-progress") | (503, "unavailable") => match &said.ticket {
                Some(ticket) => Self::InLine((&*ticket.id).into(), place),
                None => Self::Again(retry_after),
            },
            (429, "rate-limited" | "line-full") => Self::Again(retry_after),
            (403, "queue-token-required") => Self::RoomFirst,
            (403 | 409, code) => match refusal(code) {
                Some(code) => Self::Refused(code, place),
                None => Self::Strange(strange(status, body)),
            },
            _ => Self::Strange(strange(status, body)),
        }
    }

    /// What is said of a ticket.
    pub fn of_ticket(status: u16, retry_after: Option<u64>, body: &[u8]) -> Self {
        let Some(said) = Said::read(body) else { return Self::Strange(strange(status, body)) };
        let outcome = said.outcome.as_ref();
        match (status, said.state()) {
            (200, "waiting") => Self::Waiting,
            (200, "left") => Self::Left,
            (200, "seated") => match outcome.and_then(|outcome| outcome.reservation.as_deref()) {
                Some(reservation) => Self::Seated(Box::new(seating(reservation)), said.place()),
                None => Self::Strange(strange(status, body)),
            },
            (200, "refused") => {
                let problem = outcome.and_then(|outcome| outcome.problem.as_deref());
                match problem.and_then(|problem| refusal(problem.code())) {
                    Some(code) => Self::Refused(code, said.place()),
                    None => Self::Strange(strange(status, body)),
                }
            }
            (404, _) => Self::Forgotten,
            (503 | 429, _) => Self::Again(retry_after),
            _ => Self::Strange(strange(status, body)),
        }
    }
}

fn seating(said: &Said<'_>) -> Seating {
    Seating {
        id: said.id.as_deref().unwrap_or_default().into(),
        from: said.created_at.map(|at| at.as_millisecond()),
        until: said.expires_at.map(|at| at.as_millisecond()),
        table: said.table,
        seats: said.seats.iter().map(|seat| (&**seat).into()).collect(),
        due: said.amount_due.unwrap_or(0),
        ..Seating::default()
    }
}

/// An answer that was not understood, short enough to be shown.
pub(crate) fn strange(status: u16, body: &[u8]) -> Box<str> {
    let text: String = String::from_utf8_lossy(body).chars().take(300).collect();
    format!("{status} {text}").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_understood() {
        let wish = |status, body: &str| Answer::to_wish(status, Some(2), body.as_bytes());
        let made = r#"{"id":"r1","createdAt":"2026-12-01T00:00:00Z","amountDue":10000,"ticket":{"id":"t","epoch":1,"number":7}}"#;
        let Answer::Seated(seating, place) = wish(201, made) else { panic!("not seated") };
        assert_eq!((&*seating.id, seating.due, place), ("r1", 10_000, Some((1, 7))));
        assert!(
            matches!(wish(202, r#"{"id":"t1","epoch":1,"number":8}"#), Answer::InLine(id, Some((1, 8))) if &*id == "t1")
        );
        assert!(
            matches!(wish(202, r#"{"waitingCount":9}"#), Answer::Again(Some(2))),
            "asked again where there is no ticket"
        );
        let full = r#"{"code":"not-enough-places","remaining":0,"ticket":{"id":"t","epoch":1,"number":9}}"#;
        assert!(matches!(wish(409, full), Answer::Refused("not-enough-places", Some((1, 9)))));
        assert!(matches!(
            wish(503, r#"{"code":"unavailable","ticket":{"id":"t","epoch":1,"number":9}}"#),
            Answer::InLine(..)
        ));
        assert!(matches!(wish(429, r#"{"code":"line-full"}"#), Answer::Again(_)));
        for (status, body) in
            [(500, r#"{"code":"internal"}"#), (200, "{}"), (409, r#"{"code":"new"}"#), (502, "<html>")]
        {
            assert!(matches!(wish(status, body), Answer::Strange(_)), "{status} {body}");
        }
    }

    #[test]
    fn tickets_are_understood() {
        let ticket = |status, body: &str| Answer::of_ticket(status, None, body.as_bytes());
        assert!(matches!(
            ticket(200, r#"{"id":"t","state":"waiting","epoch":1,"number":2}"#),
            Answer::Waiting
        ));
        let seated = r#"{"id":"t","state":"seated","epoch":1,"number":2,"outcome":{"status":201,"reservation":{"id":"r"}}}"#;
        assert!(matches!(ticket(200, seated), Answer::Seated(seating, Some((1, 2))) if &*seating.id == "r"));
        let refused = r#"{"id":"t","state":"refused","epoch":1,"number":2,"outcome":{"status":409,"problem":{"code":"seat-taken"}}}"#;
        assert!(matches!(ticket(200, refused), Answer::Refused("seat-taken", Some((1, 2)))));
        assert!(matches!(ticket(404, "{}"), Answer::Forgotten));
        assert!(
            matches!(ticket(200, r#"{"state":"seated"}"#), Answer::Strange(_)),
            "a seat without a reservation"
        );
    }
}
