//! The languages that people are answered in, and every sentence about a refusal.

use booking::{Refusal, Status};
use hyper::HeaderMap;
use hyper::header::ACCEPT_LANGUAGE;

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
