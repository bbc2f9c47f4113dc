//! Points: out of the guest's wallet, in the same transaction as the reservation.

use booking::{Action, Reservation, Status};
use jiff::Timestamp;

use super::Provider;
use crate::fresh;

/// What this way to pay is called.
pub const POINTS: &str = "points";

/// Points out of the wallet.
pub struct Points;

impl Provider for Points {
    fn begin(&self, reservation: &Reservation, now: Timestamp) -> Action {
        let late = reservation.status() == Status::Expired || reservation.has_expired(now);
        match late {
            false => Action::Pay { reservation: reservation.id },
            true => Action::Reseat { reservation: reservation.id, afresh: fresh::reservation_id(now) },
        }
    }
}
