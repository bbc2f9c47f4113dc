//! The languages that people are answered in, and every sentence about a refusal.

use booking::room::{State, Token};
use booking::{Refusal, Status};
use hyper::HeaderMap;
use hyper::header::ACCEPT_LANGUAGE;
use jiff::Timestamp;

use super::problem::{Code, Problem, later};
use crate::payments::Unsigned;

/// A language that we speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Language {
    /// English.
    #[default]
    English,
    /// Korean.
    Korean,
}

impl Language {
    /// The best of the languages that `Accept-Language` names.
    pub fn of(headers: &HeaderMap) -> Self {
        let accepted = headers.get(ACCEPT_LANGUAGE).and_then(|value| value.to_str().ok()).unwrap_or("");
        let ranked = accepted.split(',').filter_map(|range| {
            let (tag, weight) = range.split_once(';').unwrap_or((range, "q=1"));
            let language = match tag.trim().to_ascii_lowercase().split('-').next()? {
                "ko" => Self::Korean,
                "en" | "*" => Self::English,
                _ => return None,
            };
            let weight = weight.trim().strip_prefix(['q', 'Q'])?.trim_start().strip_prefix('=')?;
            Some((weight.trim().parse::<f32>().unwrap_or(0.0), language))
        });
        // The first named wins among equals.
        ranked.fold((0.0, Self::English), |best, next| if next.0 > best.0 { next } else { best }).1
    }
}

/// A refusal, told to the person.
pub fn refusal(refusal: Refusal) -> Problem {
    match refusal {
        Refusal::AlreadyBooked => Problem::new(
            Code::AlreadyBooked,
            "You already hold a reservation for this time. Cancel or change that one.",
            "이미 같은 시간에 예약이 있습니다. 기존 예약을 취소하거나 변경해 주세요.",
        ),
        Refusal::NotEnoughPlaces { remaining } => {
            let (en, ko) = match remaining {
                0 => ("This time is fully booked.".into(), "예약이 모두 찼습니다.".into()),
                1 => ("Only 1 place is left.".into(), "남은 자리는 1석입니다.".into()),
                n => (format!("Only {n} places are left."), format!("남은 자리는 {n}석입니다.")),
            };
            Problem { remaining: Some(remaining), ..Problem::new(Code::NotEnoughPlaces, en, ko) }
        }
        Refusal::TableUnavailable { remaining } => {
            let (en, ko) = match remaining {
                0 => ("Every table is taken.".into(), "남은 테이블이 없습니다.".into()),
                n => (
                    format!("No free table fits your party; {n} smaller ones are free."),
                    format!("인원에 맞는 테이블이 없습니다. 더 작은 테이블 {n}개가 남아 있습니다."),
                ),
            };
            Problem { remaining: Some(remaining), ..Problem::new(Code::TableUnavailable, en, ko) }
        }
        Refusal::SeatTaken { remaining } => Problem {
            remaining: Some(remaining),
            ..Problem::new(
                Code::SeatTaken,
                "These seats are taken, or not so many are free side by side. Look at the seats again and choose others.",
                "선택한 좌석이 이미 예약되었거나 나란히 앉을 수 있는 좌석이 없습니다. 다른 좌석을 선택해 주세요.",
            )
        },
        Refusal::AlreadyWaiting => Problem::new(
            Code::AlreadyBooked,
            "You are on the waitlist for this time with another party size. Leave it first.",
            "이미 다른 인원으로 대기 명단에 등록되어 있습니다. 먼저 대기를 취소해 주세요.",
        ),
        Refusal::WaitlistFull => Problem {
            retry_after: Some(later(60)),
            ..Problem::new(
                Code::LineFull,
                "The waitlist for this time is full.",
                "대기 명단이 가득 찼습니다.",
            )
        },
        Refusal::IllegalTransition { from, .. } => Problem::new(
            Code::IllegalTransition,
            format!("That is not possible: the reservation {}.", standing(from).0),
            format!("처리할 수 없습니다. {}", standing(from).1),
        ),
        Refusal::InsufficientPoints => Problem::new(
            Code::InsufficientPoints,
            "Your wallet does not hold enough points. Charge it with POST /api/wallet/charges and try again.",
            "포인트가 부족합니다. 충전한 뒤 다시 시도해 주세요.",
        ),
        Refusal::PaymentInProgress => Problem::new(
            Code::PaymentInProgress,
            "This reservation is being paid with a provider. Finish there, or cancel the reservation.",
            "결제가 진행 중입니다. 결제를 마치거나 예약을 취소해 주세요.",
        ),
        // Only providers are told these, and they read the status.
        Refusal::WrongAmount | Refusal::Repeated => Problem::new(
            Code::IllegalTransition,
            "The payment was reported before, or with another amount.",
            "이미 처리되었거나 금액이 다른 결제입니다.",
        ),
        Refusal::Elsewhere | Refusal::NotFound => Problem::not_found("reservation"),
    }
}

/// A payment provider will not take a payment.
pub fn provider_refuses() -> Problem {
    Problem {
        retry_after: Some(later(5)),
        ..Problem::new(
            Code::Unavailable,
            "The payment provider does not take this payment. Your place is kept until its deadline; pay another way.",
            "결제사에서 결제를 받지 않습니다. 기한까지 자리가 유지되니 다른 방법으로 결제해 주세요.",
        )
    }
}

/// A payment provider does not answer.
pub fn provider_is_silent() -> Problem {
    Problem {
        retry_after: Some(later(5)),
        ..Problem::new(
            Code::Unavailable,
            "The payment provider does not answer. Your place is kept, and it is asked again: look at the reservation in a moment.",
            "결제사가 응답하지 않습니다. 자리는 유지되며 다시 요청하고 있으니 잠시 후 예약을 확인해 주세요.",
        )
    }
}

/// An event that its provider has not signed, or that cannot be read.
pub fn unsigned(why: Unsigned) -> Problem {
    match why {
        Unsigned::Body => {
            Problem::field("", "is not an event: type, and for payments data.payment and data.amount")
        }
        _ => Problem::new(
            Code::Unauthenticated,
            format!("The event is not signed as it should be: {why}."),
            "서명이 올바르지 않습니다.",
        ),
    }
}

/// Somebody asks for a place in a waiting room and has one.
pub fn already_issued(token: &Token) -> Problem {
    let (en, ko) = match token.number {
        Some(number) => (
            format!("You already have number {number}. See GET …/queue-tokens/current."),
            format!("이미 {number}번 대기표가 있습니다."),
        ),
        None => (
            "You stand in the waiting room already; numbers are given out when the sale opens.".into(),
            "이미 대기실에 있습니다. 번호는 판매가 시작될 때 정해집니다.".into(),
        ),
    };
    Problem::new(Code::TokenAlreadyIssued, en, ko)
}

/// Seconds until an instant, at least one.
fn until(at: Timestamp, now: Timestamp) -> u64 {
    at.duration_since(now).as_secs().max(0).unsigned_abs() + 1
}

/// The sale is not open yet.
pub fn not_open(opens_at: Timestamp, now: Timestamp) -> Problem {
    let mut problem = Problem::new(
        Code::NotOpen,
        format!("The sale opens at {opens_at}. Come back then."),
        format!("판매는 {opens_at}에 시작됩니다."),
    );
    (problem.opens_at, problem.retry_after) = (Some(opens_at), Some(until(opens_at, now)));
    problem
}

/// Somebody comes without a token that is inside: where they stand, and what to do.
pub fn queue_token_required(place: Option<&Token>, opens_at: Timestamp, now: Timestamp) -> Problem {
    let (en, ko): (String, &'static str) = match place.map(|place| (place.state, place.number)) {
        Some((State::Waiting, Some(number))) => (
            format!("You are number {number} and not inside yet. See GET …/queue-tokens/current."),
            "아직 입장 순서가 아닙니다. 대기 순서를 확인해 주세요.",
        ),
        Some((State::Waiting, None)) => (
            format!("The sale opens at {opens_at}; you stand in the waiting room."),
            "아직 판매가 시작되지 않았습니다. 대기실에서 기다려 주세요.",
        ),
        // It is the token that is wrong.
        Some((State::Inside, _)) => (
            "Send your token as Queue-Token; GET …/queue-tokens/current has a fresh one.".into(),
            "Queue-Token 헤더에 유효한 대기표를 보내 주세요.",
        ),
        Some((State::Lapsed, _)) => (
            "Your time inside is over. Ask for a new place with POST …/queue-tokens.".into(),
            "입장 시간이 끝났습니다. 대기표를 다시 받아 주세요.",
        ),
        Some((State::Done | State::Left, _)) => (
            "Your place in the waiting room is used up. Ask for a new one with POST …/queue-tokens.".into(),
            "이미 사용한 대기표입니다. 대기표를 다시 받아 주세요.",
        ),
        None => (
            "This venue has a waiting room. Ask for a place with POST …/queue-tokens.".into(),
            "대기실이 있는 매장입니다. 먼저 대기표를 받아 주세요.",
        ),
    };
    let mut problem = Problem::new(Code::QueueTokenRequired, en, ko);
    if opens_at > now {
        (problem.opens_at, problem.retry_after) = (Some(opens_at), Some(until(opens_at, now)));
    } else if place.is_some_and(|place| place.state == State::Waiting) {
        problem.retry_after = Some(later(2));
    }
    problem
}

fn standing(status: Status) -> (&'static str, &'static str) {
    match status {
        Status::Temporary => ("is waiting for its payment", "결제를 기다리는 예약입니다."),
        Status::Confirmed | Status::PrepayConfirm => ("is confirmed", "이미 확정된 예약입니다."),
        Status::RefundPending => ("is cancelled and its refund is on the way", "환불을 기다리는 예약입니다."),
        Status::Refunded => ("is cancelled and refunded", "환불된 예약입니다."),
        Status::Expired => ("was not paid in time", "결제 시간이 지난 예약입니다."),
        Status::Canceled => ("is cancelled", "취소된 예약입니다."),
        Status::Completed => ("is completed", "방문이 완료된 예약입니다."),
        Status::NoShow => ("is closed as a no-show", "노쇼로 처리된 예약입니다."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_preferred_language_that_we_speak_is_used() {
        let of =
            |value: &str| Language::of(&HeaderMap::from_iter([(ACCEPT_LANGUAGE, value.parse().unwrap())]));
        assert_eq!(Language::of(&HeaderMap::new()), Language::English);
        assert_eq!(of("ko"), Language::Korean);
        assert_eq!(of("ko-KR,ko;q=0.9,en;q=0.8"), Language::Korean);
        assert_eq!(of("fr, en;q=0.5, ko;q=0.9"), Language::Korean);
        assert_eq!(of("en-GB,ko;q=0.9"), Language::English);
        assert_eq!(of("KO-kr"), Language::Korean);
        assert_eq!(of("en; q=0.4, ko; q=0.9"), Language::Korean);
        assert_eq!(of("de"), Language::English);
        assert_eq!(of("ko;q=x, ;;q"), Language::English);
    }
}
