//! What ending or changing a reservation means in money, at some instant: the same figures for whoever decides and for
//! whoever only asks first.

use jiff::Timestamp;

use crate::money::Won;
use crate::policy::CancelledBy;
use crate::reservation::{Payment, Reservation, Status};
use crate::venue::Venue;

/// What a cancellation brings back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cancelling {
    /// Per cent of what counts.
    pub percent: u8,
    /// How much that is.
    pub refund: Won,
}

/// What a change costs or brings back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Changing {
    /// What the reservation costs afterwards.
    pub price: Won,
    /// What is paid at once.
    pub costs: Won,
    /// What comes back at once.
    pub refund: Won,
    /// What stays with the venue although nothing is had for it.
    pub forfeited: Won,
}

/// What comes back when this reservation is cancelled at `at`.
pub fn cancelling(venue: &Venue, reservation: &Reservation, by: CancelledBy, at: Timestamp) -> Cancelling {
    let kept = reservation.paid - reservation.refunded;
    // What a smaller party has forfeited already is no part of what its guest cancels now.
    let cancelled = if by == CancelledBy::Guest { kept.min(reservation.price) } else { kept };
    let percent = percent(venue, reservation, by, at);
    Cancelling { percent, refund: cancelled.percent(percent) }
}

/// What it means to change this reservation to another party at `at`. What a confirmed party costs more is paid now; what
/// it costs less comes back at the rate of a cancellation. `None` where it depends on the seats that it gets.
pub fn changing(venue: &Venue, reservation: &Reservation, party: u32, at: Timestamp) -> Option<Changing> {
    let price = match (venue.settings.inventory.hall(), reservation.payment) {
        (Some(_), _) if party != reservation.party => return None,
        (Some(_), _) | (None, Payment::Prepay) => reservation.price,
        (None, Payment::Deposit) => venue.settings.policy.deposit(party),
    };
    let nothing = Changing { price, costs: Won::ZERO, refund: Won::ZERO, forfeited: Won::ZERO };
    if reservation.status() == Status::Temporary {
        return Some(nothing);
    }
    if price >= reservation.price {
        return Some(Changing { costs: price - reservation.price, ..nothing });
    }
    let less = reservation.price - price;
    let refund = less.percent(percent(venue, reservation, CancelledBy::Guest, at));
    Some(Changing { refund, forfeited: less - refund, ..nothing })
}

fn percent(venue: &Venue, reservation: &Reservation, by: CancelledBy, at: Timestamp) -> u8 {
    let settings = &venue.settings;
    let start = venue.start(reservation.slot);
    settings.policy.refund_percent(start, settings.time_zone.zone(), reservation.party, by, at)
}
