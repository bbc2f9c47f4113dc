//! New reservations, column by column: one statement inserts any number of them.

use std::borrow::Cow;
use std::sync::Arc;

use booking::Reservation;

use super::columns::{Wide, text};
use super::session::Step;
use crate::records::{order_text, seats_text};

const TAKE: &str = "INSERT INTO reservation (id, slot_id, person, name, status, party, table_no, payment, items, price, \
     paid, refunded, refund_due, expires_at, note, ticket, created_at, version, reseats, seats, offered) \
     SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::uuid[], $4::text[], $5::text[], $6::bigint[], $7::bigint[], \
     $8::text[], $9::text[], $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[], $15::text[], \
     $16::uuid[], $17::bigint[], $18::bigint[], $19::uuid[], $20::text[], $21::boolean[])";
/// The database itself forbids a seat that is held (C6).
const TAKE_SEATS: &str = "INSERT INTO held_seat (slot_id, seat, reservation) SELECT * FROM unnest($1::bigint[], $2::text[], $3::uuid[])";

pub(super) struct Takes<'a> {
    id: Vec<Wide>,
    slot: Vec<i64>,
    person: Vec<Wide>,
    name: Vec<Cow<'a, str>>,
    status: Vec<&'static str>,
    party: Vec<i64>,
    table_no: Vec<Option<i64>>,
    payment: Vec<&'static str>,
    items: Vec<Option<String>>,
    price: Vec<i64>,
    paid: Vec<i64>,
    refunded: Vec<i64>,
    refund_due: Vec<i64>,
    expires_at: Vec<i64>,
    note: Vec<Option<Cow<'a, str>>>,
    ticket: Vec<Wide>,
    created_at: Vec<i64>,
    version: Vec<i64>,
    reseats: Vec<Option<Wide>>,
    seats: Vec<Option<String>>,
    offered: Vec<bool>,
    held: Seats<'a>,
}

impl<'a> Takes<'a> {
    pub(super) fn of(new: &'a [Arc<Reservation>]) -> Self {
        Self {
            id: new.iter().map(|r| Wide(r.id.0)).collect(),
            slot: new.iter().map(|r| r.slot.to_i64()).collect(),
            person: new.iter().map(|r| Wide(r.person.0)).collect(),
            name: new.iter().map(|r| text(&r.name)).collect(),
            status: new.iter().map(|r| r.status().as_str()).collect(),
            party: new.iter().map(|r| r.party.into()).collect(),
            table_no: new.iter().map(|r| r.table.map(i64::from)).collect(),
            payment: new.iter().map(|r| r.payment.as_str()).collect(),
            items: new.iter().map(|r| order_text(&r.order)).collect(),
            price: new.iter().map(|r| r.price.0).collect(),
            paid: new.iter().map(|r| r.paid.0).collect(),
            refunded: new.iter().map(|r| r.refunded.0).collect(),
            refund_due: new.iter().map(|r| r.refund_due.0).collect(),
            expires_at: new.iter().map(|r| r.expires_at.as_millisecond()).collect(),
            note: new.iter().map(|r| r.note.as_deref().map(text)).collect(),
            ticket: new.iter().map(|r| Wide(r.ticket.to_u128())).collect(),
            created_at: new.iter().map(|r| r.created_at.as_millisecond()).collect(),
            version: new.iter().map(|r| r.version.into()).collect(),
            reseats: new.iter().map(|r| r.reseats.map(|id| Wide(id.0))).collect(),
            seats: new.iter().map(|r| seats_text(&r.seats)).collect(),
            offered: new.iter().map(|r| r.offered).collect(),
            held: Seats::of(new.iter().filter(|r| r.status().holds_places()).map(|r| &**r)),
        }
    }

    pub(super) fn push_to<'b>(&'b self, steps: &mut Vec<Step<'b>>) {
        if self.id.is_empty() {
            return;
        }
        let values: [&(dyn tokio_postgres::types::ToSql + Sync); 21] = [
            &self.id,
            &self.slot,
            &self.person,
            &self.name,
            &self.status,
            &self.party,
            &self.table_no,
            &self.payment,
            &self.items,
            &self.price,
            &self.paid,
            &self.refunded,
            &self.refund_due,
            &self.expires_at,
            &self.note,
            &self.ticket,
            &self.created_at,
            &self.version,
            &self.reseats,
            &self.seats,
            &self.offered,
        ];
        steps.push(Step::new(TAKE, &values));
        self.held.push_to(steps);
    }
}

/// Seats that are taken, one by one.
#[derive(Default)]
pub(super) struct Seats<'a> {
    slot: Vec<i64>,
    seat: Vec<&'a str>,
    reservation: Vec<Wide>,
}

impl<'a> Seats<'a> {
    pub(super) fn of(reservations: impl Iterator<Item = &'a Reservation>) -> Self {
        let mut all = Self::default();
        for r in reservations {
            for seat in r.seats.iter() {
                all.slot.push(r.slot.to_i64());
                all.seat.push(seat.as_str());
                all.reservation.push(Wide(r.id.0));
            }
        }
        all
    }

    pub(super) fn push_to<'b>(&'b self, steps: &mut Vec<Step<'b>>) {
        if !self.slot.is_empty() {
            steps.push(Step::new(TAKE_SEATS, &[&self.slot, &self.seat, &self.reservation]));
        }
    }
}
