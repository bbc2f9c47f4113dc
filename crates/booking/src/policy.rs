//! What a reservation costs, and what comes back when it is cancelled (A13).
//!
//! A policy belongs to a venue. The defaults are those of the lunch service: 5,000 won a head, 10,000 for parties of
//! seven or more; all of it back until the day before, half on the day, a fifth within two hours of the start.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::money::Won;

/// A venue's terms of payment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Policy {
    /// Deposit a head.
    pub deposit_per_person: Won,
    /// Parties of this size or more pay the larger deposit.
    pub large_party: u32,
    /// Deposit a head in a large party.
    pub large_party_deposit_per_person: Won,
    /// Per cent returned when cancelled before the day of the slot.
    pub refund_before_day: u8,
    /// Per cent returned on the day, up to [`Policy::late_hours`] before the start.
    pub refund_same_day: u8,
    /// How many hours before the start a cancellation counts as late.
    pub late_hours: u32,
    /// Per cent returned when cancelled late.
    pub refund_late: u8,
    /// Parties of this size or more get [`Policy::refund_late_crowd`] when late.
    pub late_crowd: u32,
    /// Per cent returned to such a party.
    pub refund_late_crowd: u8,
    /// How long a hold waits for its payment, in seconds.
    pub hold_seconds: u32,
    /// How long a place that is offered to somebody on the waitlist waits for them, in seconds.
    pub offer_seconds: u32,
    /// Whether staff hands out each refund by hand; the cancelled places are held until then.
    pub refunds_by_staff: bool,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            deposit_per_person: Won(5_000),
            large_party: 7,
            large_party_deposit_per_person: Won(10_000),
            refund_before_day: 100,
            refund_same_day: 50,
            late_hours: 2,
            refund_late: 20,
            late_crowd: 8,
            refund_late_crowd: 10,
            hold_seconds: 7 * 60,
            offer_seconds: 5 * 60,
            refunds_by_staff: false,
        }
    }
}

impl Policy {
    /// The defaults for shows: a seat is held for five minutes (C7).
    pub fn for_shows() -> Self {
        Self { hold_seconds: 5 * 60, ..Self::default() }
    }
}

/// Who ends a reservation: the venue gives everything back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CancelledBy {
    /// The guest whose reservation it is.
    Guest,
    /// The venue's staff.
    Venue,
}

impl Policy {
    /// The deposit of a party.
    pub fn deposit(&self, party: u32) -> Won {
        let each = if party >= self.large_party {
            self.large_party_deposit_per_person
        } else {
            self.deposit_per_person
        };
        each.times(party).unwrap_or(Won(i64::MAX))
    }

    /// How long a hold lasts.
    pub fn hold(&self) -> SignedDuration {
        SignedDuration::from_secs(i64::from(self.hold_seconds))
    }

    /// How long an offer lasts.
    pub fn offer(&self) -> SignedDuration {
        SignedDuration::from_secs(i64::from(self.offer_seconds))
    }

    /// Per cent of what was paid that comes back for a cancellation at `at` of a slot that starts at `start`.
    pub fn refund_percent(
        &self,
        start: Timestamp,
        zone: &TimeZone,
        party: u32,
        by: CancelledBy,
        at: Timestamp,
    ) -> u8 {
        if by == CancelledBy::Venue {
            return 100;
        }
        let ahead = start.duration_since(at);
        if ahead <= SignedDuration::ZERO {
            return 0;
        }
        if zone.to_datetime(at).date() < zone.to_datetime(start).date() {
            return self.refund_before_day;
        }
        if ahead >= SignedDuration::from_hours(i64::from(self.late_hours)) {
            return self.refund_same_day;
        }
        if party >= self.late_crowd { self.refund_late_crowd } else { self.refund_late }
    }

    /// What makes these terms impossible, if anything: the setting's name and what to do.
    pub fn fault(&self) -> Option<(&'static str, &'static str)> {
        let percents = [
            ("refundBeforeDay", self.refund_before_day),
            ("refundSameDay", self.refund_same_day),
            ("refundLate", self.refund_late),
            ("refundLateCrowd", self.refund_late_crowd),
        ];
        if let Some((name, _)) = percents.iter().find(|(_, percent)| *percent > 100) {
            return Some((name, "must be between 0 and 100"));
        }
        let deposits = [
            ("depositPerPerson", self.deposit_per_person),
            ("largePartyDepositPerPerson", self.large_party_deposit_per_person),
        ];
        if let Some((name, _)) = deposits.iter().find(|(_, won)| !(Won::ZERO..=Won(10_000_000)).contains(won))
        {
            return Some((name, "must be between 0 and 10,000,000 won"));
        }
        if !(5..=86_400).contains(&self.hold_seconds) {
            return Some(("holdSeconds", "must be between 5 and 86,400"));
        }
        if !(5..=86_400).contains(&self.offer_seconds) {
            return Some(("offerSeconds", "must be between 5 and 86,400"));
        }
        (self.late_hours > 240).then_some(("lateHours", "must be at most 240"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instant(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn large_parties_pay_more_a_head() {
        let policy = Policy::default();
        assert_eq!([1, 6, 7].map(|party| policy.deposit(party)), [Won(5_000), Won(30_000), Won(70_000)]);
    }

    #[test]
    fn the_refund_shrinks_as_the_slot_comes_near() {
        let policy = Policy::default();
        let seoul = TimeZone::get("Asia/Seoul").unwrap();
        let start = instant("2026-12-01T12:00:00+09:00");
        let percent =
            |at: &str, party| policy.refund_percent(start, &seoul, party, CancelledBy::Guest, instant(at));
        assert_eq!(percent("2026-11-30T23:59:59+09:00", 4), 100);
        assert_eq!(percent("2026-12-01T00:00:00+09:00", 4), 50);
        assert_eq!(percent("2026-12-01T10:00:00+09:00", 4), 50);
        assert_eq!(percent("2026-12-01T10:00:01+09:00", 4), 20);
        assert_eq!(percent("2026-12-01T10:00:01+09:00", 8), 10);
        assert_eq!(percent("2026-12-01T12:00:00+09:00", 4), 0);
        let by_venue =
            policy.refund_percent(start, &seoul, 8, CancelledBy::Venue, instant("2026-12-01T11:59:00+09:00"));
        assert_eq!(by_venue, 100);
    }
}
