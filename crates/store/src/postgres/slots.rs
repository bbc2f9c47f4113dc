//! Reading slots and reservations. Whatever belongs together is read by one statement, and so at one instant.

use booking::waitlist::MAX_PASSES;
use booking::{PersonId, Reservation, ReservationId, Slot, SlotId, VenueId, Waitlist};
use jiff::Timestamp;
use jiff::civil::Date;

use super::Postgres;
use super::columns::{Columns, Wide, reservations, with_reservation};
use crate::error::Error;
use crate::records::{Occupancy, Overdue, Page};

impl Postgres {
    /// The slot with everybody who holds a place in it.
    pub(crate) async fn slot(&self, id: SlotId) -> Result<Slot, Error> {
        let sql = with_reservation!(
            "SELECT slot.version, r.id IS NOT NULL,"
                ..."FROM slot LEFT JOIN reservation r ON r.slot_id = slot.id \
             AND r.status IN ('TEMPORARY', 'CONFIRMED', 'PREPAY_CONFIRM', 'REFUND_PENDING') WHERE slot.id = $1"
        );
        let rows = self.ask(sql, &[&id.to_i64()]).await?;
        let mut slot = (0, Vec::with_capacity(rows.len()));
        for row in &rows {
            let mut columns = Columns::of(row, "a slot");
            slot.0 = columns.number()?;
            if columns.take()? {
                slot.1.push(columns.reservation()?);
            }
        }
        if rows.is_empty() {
            return Ok(Slot::empty(id));
        }
        // Read after the slot: if the list has moved on since, so has the slot's version, and nothing can be stored from this.
        let waitlist = self.waitlist(id).await?;
        Ok(Slot::restore(id, slot.0, slot.1).with_waitlist(Waitlist::restore(waitlist)))
    }

    /// These reservations, as far as they exist.
    pub(crate) async fn reservations(&self, ids: Vec<ReservationId>) -> Result<Vec<Reservation>, Error> {
        let sql = with_reservation!(
            "SELECT"
                ..."FROM unnest($1::uuid[]) WITH ORDINALITY AS named (id, n) JOIN reservation r USING (id) ORDER BY n"
        );
        let ids: Vec<_> = ids.into_iter().map(|id| Wide(id.0)).collect();
        reservations(&self.ask(sql, &[&ids]).await?)
    }

    /// A person's reservations, newest first, from after the cursor.
    pub(crate) async fn reservations_of(
        &self,
        person: PersonId,
        after: Option<ReservationId>,
        limit: u32,
    ) -> Result<Page<Reservation>, Error> {
        let sql = with_reservation!(
            "SELECT"
                ..."FROM reservation r WHERE r.person = $1 AND ($2::uuid IS NULL OR (r.created_at, r.id) < \
             (SELECT created_at, id FROM reservation WHERE id = $2 AND person = $1)) \
             ORDER BY r.created_at DESC, r.id DESC LIMIT $3"
        );
        let after = after.map(|id| Wide(id.0));
        let rows = self.ask(sql, &[&Wide(person.0), &after, &(i64::from(limit) + 1)]).await?;
        let items = reservations(&rows)?;
        Ok(Page::of(items, limit, |last| last.id.to_string()))
    }

    /// A venue's reservations on one day, by time, then in the order in which they were won.
    pub(crate) async fn reservations_on(
        &self,
        venue: VenueId,
        date: Date,
    ) -> Result<Vec<Reservation>, Error> {
        let Some((first, last)) = SlotId::day_range(venue, date) else { return Ok(Vec::new()) };
        let sql = with_reservation!(
            "SELECT"..."FROM reservation r WHERE r.slot_id BETWEEN $1 AND $2 ORDER BY r.slot_id, r.ticket"
        );
        reservations(&self.ask(sql, &[&first.to_i64(), &last.to_i64()]).await?)
    }

    /// What is taken at `now` of a venue's slots, from one to another; slots of which nothing is taken are left out.
    pub(crate) async fn occupancy(
        &self,
        from: SlotId,
        to: SlotId,
        now: Timestamp,
    ) -> Result<Vec<Occupancy>, Error> {
        let sql = "SELECT slot_id, sum(party)::bigint, count(*), \
                   coalesce(sum(party) FILTER (WHERE status = 'TEMPORARY'), 0)::bigint, \
                   count(*) FILTER (WHERE status = 'TEMPORARY'), \
                   coalesce(array_agg(table_no) FILTER (WHERE table_no IS NOT NULL), '{}'), \
                   EXISTS (SELECT FROM waiting WHERE waiting.slot_id = reservation.slot_id AND passed >= $4) \
                   FROM reservation \
                   WHERE slot_id BETWEEN $1 AND $2 \
                   AND status IN ('TEMPORARY', 'CONFIRMED', 'PREPAY_CONFIRM', 'REFUND_PENDING') \
                   AND (status <> 'TEMPORARY' OR expires_at > $3) GROUP BY slot_id ORDER BY slot_id";
        let rows = self
            .ask(sql, &[&from.to_i64(), &to.to_i64(), &now.as_millisecond(), &i64::from(MAX_PASSES)])
            .await?;
        let occupancy = |row| {
            let mut columns = Columns::of(row, "what is taken");
            Ok(Occupancy {
                slot: columns.slot()?,
                people: columns.number()?,
                reservations: columns.number()?,
                held_people: columns.number()?,
                held_reservations: columns.number()?,
                tables: columns.numbers()?,
                kept: columns.take()?,
            })
        };
        rows.iter().map(occupancy).collect()
    }

    /// When the next hold runs out that has not been written down as expired.
    pub(crate) async fn next_deadline(&self) -> Result<Option<Timestamp>, Error> {
        let sql = "SELECT expires_at FROM reservation WHERE status = 'TEMPORARY' ORDER BY expires_at LIMIT 1";
        let rows = self.ask(sql, &[]).await?;
        rows.first().map(|row| Columns::of(row, "a deadline").instant()).transpose()
    }

    /// Holds whose deadline has passed at `now`, the longest overdue first.
    pub(crate) async fn overdue(&self, now: Timestamp, limit: u32) -> Result<Vec<Overdue>, Error> {
        let sql = "SELECT slot_id, id, person FROM reservation \
                   WHERE status = 'TEMPORARY' AND expires_at <= $1 ORDER BY expires_at LIMIT $2";
        let rows = self.ask(sql, &[&now.as_millisecond(), &i64::from(limit)]).await?;
        let overdue = |row| {
            let mut columns = Columns::of(row, "a hold");
            Ok(Overdue {
                slot: columns.slot()?,
                reservation: ReservationId(columns.id()?),
                person: PersonId(columns.id()?),
            })
        };
        rows.iter().map(overdue).collect()
    }
}
