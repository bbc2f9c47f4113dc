//! Fresh ids, drawn only at the edges. The first 48 bits are the time, so that rows made together lie together.

use booking::{PaymentId, PersonId, ReservationId};
use jiff::Timestamp;

use crate::chance;

fn fresh(now: Timestamp) -> u128 {
    let millis = u128::from(now.as_millisecond().unsigned_abs()) & ((1 << 48) - 1);
    millis << 80 | chance::bits() >> 48
}

/// An id for a reservation that is about to be asked for.
pub fn reservation_id(now: Timestamp) -> ReservationId {
    ReservationId(fresh(now))
}

/// An id for a payment that is about to be begun.
pub fn payment_id(now: Timestamp) -> PaymentId {
    PaymentId(fresh(now))
}

/// An id for a new person.
pub fn person_id(now: Timestamp) -> PersonId {
    PersonId(fresh(now))
}
