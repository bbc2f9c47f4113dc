//! The rows of a rush: what every contender writes.

use std::sync::Arc;

use booking::decide::Booking;
use booking::venue::{Kind, Settings, WeekTimes, Zone};
use booking::*;
use jiff::{SignedDuration, Timestamp};

/// One batch, as every contender is given it.
pub struct Written {
    /// The reservations that it makes.
    pub reservations: Vec<Arc<Reservation>>,
    /// What was decided.
    pub decisions: Vec<Decision>,
    /// The same, written out for the log.
    pub log: String,
}

/// The first and the last place in line of a batch.
pub fn range(batch: &Written) -> (i64, i64) {
    let place = |r: Option<&Arc<Reservation>>| r.map_or(0, |r| r.ticket.place_as_i64());
    (place(batch.reservations.first()), place(batch.reservations.last()))
}

/// A rush on one slot: tickets in order, people and ids as if by chance.
pub fn batches_of(size: u64, batches: u64) -> Vec<Written> {
    let mut numbers = 1..;
    (0..batches)
        .map(|_| {
            let reservations: Vec<_> =
                numbers.by_ref().take(usize::try_from(size).unwrap_or(0)).map(hold).collect();
            let decisions: Vec<_> = reservations.iter().map(|r| won(r)).collect();
            // Decisions are plain data: writing them cannot fail.
            let log = serde_json::to_string(&decisions).unwrap_or_default();
            Written { reservations, decisions, log }
        })
        .collect()
}

fn hold(number: u64) -> Arc<Reservation> {
    Arc::new(Reservation {
        // As the server makes them: in order of time, with a random tail.
        id: ReservationId(u128::from(number) << 80 | scattered(number) >> 48),
        slot: slot(),
        person: PersonId(scattered(number << 32)),
        name: "Kim Guest".into(),
        life: Life::NEW,
        party: 2,
        table: None,
        payment: Payment::Deposit,
        order: Arc::from([]),
        price: Won(10_000),
        paid: Won::ZERO,
        refunded: Won::ZERO,
        refund_due: Won::ZERO,
        expires_at: now() + SignedDuration::from_mins(7),
        note: None,
        ticket: TicketId::new(slot(), 1, number),
        created_at: now(),
        version: 1,
        reseats: None,
        seats: Arc::default(),
        offered: false,
    })
}

fn won(r: &Reservation) -> Decision {
    let (ticket, reservation) = (Some(r.ticket), Some(r.id));
    Decision {
        ticket,
        person: r.person,
        verdict: Verdict::Book,
        party: 2,
        left: 20,
        reservation,
        refused: None,
    }
}

/// Two rounds of splitmix64: the same ids in every run, in no order.
pub fn scattered(number: u64) -> u128 {
    let mix = |seed: u64| {
        let z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    u128::from(mix(number)) << 64 | u128::from(mix(!number))
}

/// Noon on the first day of a new file's first venue.
pub fn slot() -> SlotId {
    SlotId::from_i64((1 << 32) | (12 * 60))
}

/// When everything happens.
pub fn now() -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_hours(24 * 365 * 56)
}

/// A venue that never sells out.
pub fn settings() -> crate::Result<Settings> {
    settings_for(10_000_000)
}

/// A venue with so many places in each slot.
pub fn settings_for(capacity: u32) -> crate::Result<Settings> {
    Ok(Settings {
        name: "Here".into(),
        kind: Kind::Restaurant,
        inventory: Inventory::Places { capacity },
        time_zone: Zone::named("Asia/Seoul").ok_or("no such zone")?,
        times: WeekTimes::daily(0, 23),
        book_ahead_days: 60,
        shows: vec![],
        requests_per_second: None,
        policy: booking::policy::Policy::default(),
    })
}

/// The wish of a guest.
pub fn book(n: u64) -> Action {
    Action::Book(Box::new(Booking {
        id: ReservationId(u128::from(n) << 80 | scattered(n) >> 48),
        name: "Kim Guest".into(),
        party: 2,
        payment: Payment::Deposit,
        seats: Arc::default(),
        section: None,
        order: Arc::from([]),
        note: None,
    }))
}
