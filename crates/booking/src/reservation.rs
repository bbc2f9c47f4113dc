//! A reservation and its life: the states of SPEC.md, and the only moves between them.

use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::hall::Seat;
use crate::ids::{PersonId, ReservationId, SlotId, TicketId};
use crate::money::Won;
use crate::names::named;

named! {
    /// Where a reservation stands.
    Status {
        /// Held, not yet paid; has a deadline.
        Temporary = "TEMPORARY",
        /// The deposit is paid.
        Confirmed = "CONFIRMED",
        /// The menu or the seats are prepaid.
        PrepayConfirm = "PREPAY_CONFIRM",
        /// Cancelled, money still to be returned.
        RefundPending = "REFUND_PENDING",
        /// Cancelled, money returned.
        Refunded = "REFUNDED",
        /// Not paid in time.
        Expired = "EXPIRED",
        /// Cancelled, nothing to return.
        Canceled = "CANCELED",
        /// The guests came.
        Completed = "COMPLETED",
        /// The guests did not come.
        NoShow = "NO_SHOW",
    }
}

named! {
    /// How a hold becomes a confirmed reservation.
    Payment {
        /// By a deposit a head.
        Deposit = "deposit",
        /// By paying for what was ordered.
        Prepay = "prepay",
    }
}

impl Status {
    /// Whether a reservation in this state takes up places (A3).
    pub fn holds_places(self) -> bool {
        matches!(self, Self::Temporary | Self::Confirmed | Self::PrepayConfirm | Self::RefundPending)
    }

    /// Whether the move is one of the legal ones. Nothing else is.
    pub fn can_become(self, to: Status) -> bool {
        use Status::*;
        matches!(
            (self, to),
            (Temporary, Confirmed | PrepayConfirm | Expired | Canceled)
                | (Confirmed | PrepayConfirm, RefundPending | Canceled | Completed | NoShow)
                | (RefundPending, Refunded)
        )
    }
}

/// A move that the state machine does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a reservation that is {from} cannot become {to}")]
pub struct IllegalTransition {
    /// Where it stands.
    pub from: Status,
    /// Where it was to go.
    pub to: Status,
}

/// A reservation's status, which moves only along legal transitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Life(Status);

impl Life {
    /// How every reservation begins.
    pub const NEW: Life = Life(Status::Temporary);

    /// A life as the database remembers it.
    pub fn stored(status: Status) -> Self {
        Self(status)
    }

    /// Where it stands.
    pub fn status(self) -> Status {
        self.0
    }

    /// Moves on, if the state machine has that move.
    pub fn advance(&mut self, to: Status) -> Result<(), IllegalTransition> {
        if !self.0.can_become(to) {
            return Err(IllegalTransition { from: self.0, to });
        }
        self.0 = to;
        Ok(())
    }
}

/// Something ordered ahead, at the price it had then.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OrderLine {
    /// The menu item.
    pub item: u32,
    /// What it was called.
    pub name: Arc<str>,
    /// The price of one.
    pub price: Won,
    /// How many.
    pub quantity: u32,
}

/// A reservation, whole. Instants are written as the database keeps them, in milliseconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reservation {
    /// Its id, through all its states.
    pub id: ReservationId,
    /// What it books.
    pub slot: SlotId,
    /// Whose it is.
    pub person: PersonId,
    /// The name it is made out to.
    pub name: Arc<str>,
    /// Where it stands.
    #[serde(rename = "status")]
    pub life: Life,
    /// How many people come.
    pub party: u32,
    /// The table, where the venue has tables.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub table: Option<u32>,
    /// The seats, where the venue has numbered ones.
    #[serde(skip_serializing_if = "<[_]>::is_empty", default)]
    pub seats: Arc<[Seat]>,
    /// How it is to be paid.
    pub payment: Payment,
    /// What was ordered ahead.
    #[serde(skip_serializing_if = "<[_]>::is_empty", default)]
    pub order: Arc<[OrderLine]>,
    /// What it costs: the deposit, or the sum of the seats and the order.
    pub price: Won,
    /// What has been paid so far.
    #[serde(skip_serializing_if = "Won::is_zero", default)]
    pub paid: Won,
    /// What of that has been returned.
    #[serde(skip_serializing_if = "Won::is_zero", default)]
    pub refunded: Won,
    /// What is still to be returned, while a refund is pending.
    #[serde(skip_serializing_if = "Won::is_zero", default)]
    pub refund_due: Won,
    /// Until when it must be paid.
    #[serde(with = "jiff::fmt::serde::timestamp::millisecond::required")]
    pub expires_at: Timestamp,
    /// The guest's words to the venue.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub note: Option<Arc<str>>,
    /// The place in line that won it.
    pub ticket: TicketId,
    /// When it was decided.
    #[serde(with = "jiff::fmt::serde::timestamp::millisecond::required")]
    pub created_at: Timestamp,
    /// Counts the changes; each change is conditional on it.
    pub version: u32,
    /// The expired reservation that this one stands in for (D9).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reseats: Option<ReservationId>,
    /// Whether it was offered to somebody on the waitlist (D7).
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub offered: bool,
}

impl Reservation {
    /// Where it stands.
    pub fn status(&self) -> Status {
        self.life.status()
    }

    /// What has to be paid now.
    pub fn amount_due(&self) -> Won {
        if self.status() == Status::Temporary { self.price - self.paid } else { Won::ZERO }
    }

    /// Whether it is a hold whose time is over at `at`: free, whatever the row still says.
    pub fn has_expired(&self, at: Timestamp) -> bool {
        self.status() == Status::Temporary && self.expires_at <= at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::UnknownName;

    /// Written out from SPEC.md, not from the code: 9 × 9 moves, of which these alone are legal.
    #[test]
    fn exactly_the_legal_moves_are_possible() {
        let legal = [
            ("TEMPORARY", "CONFIRMED"),
            ("TEMPORARY", "PREPAY_CONFIRM"),
            ("TEMPORARY", "EXPIRED"),
            ("TEMPORARY", "CANCELED"),
            ("CONFIRMED", "REFUND_PENDING"),
            ("CONFIRMED", "CANCELED"),
            ("CONFIRMED", "COMPLETED"),
            ("CONFIRMED", "NO_SHOW"),
            ("PREPAY_CONFIRM", "REFUND_PENDING"),
            ("PREPAY_CONFIRM", "CANCELED"),
            ("PREPAY_CONFIRM", "COMPLETED"),
            ("PREPAY_CONFIRM", "NO_SHOW"),
            ("REFUND_PENDING", "REFUNDED"),
        ];
        for &from in Status::ALL {
            for &to in Status::ALL {
                let expected = legal.contains(&(from.as_str(), to.as_str()));
                assert_eq!(from.can_become(to), expected, "{from} -> {to}");
                let mut life = Life::stored(from);
                assert_eq!(life.advance(to).is_ok(), expected);
                assert_eq!(life.status(), if expected { to } else { from });
            }
        }
    }

    #[test]
    fn places_are_held_in_exactly_four_states() {
        let holding: Vec<_> = Status::ALL.iter().filter(|s| s.holds_places()).map(|s| s.as_str()).collect();
        assert_eq!(holding, ["TEMPORARY", "CONFIRMED", "PREPAY_CONFIRM", "REFUND_PENDING"]);
    }

    #[test]
    fn names_are_read_back() {
        for &status in Status::ALL {
            assert_eq!(status.as_str().parse(), Ok(status));
        }
        assert_eq!("confirmed".parse::<Status>(), Err(UnknownName));
    }
}
