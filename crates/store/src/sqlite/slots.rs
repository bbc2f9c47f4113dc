//! Reading slots and reservations.

use booking::waitlist::MAX_PASSES;
use booking::{PersonId, Reservation, ReservationId, Slot, SlotId, VenueId, Waitlist};
use jiff::Timestamp;
use jiff::civil::Date;
use rusqlite::{Connection, OptionalExtension, params};

use super::columns::{Instant, RESERVATION, Wide, reservation};
use super::{Sqlite, millis, waitlist};
use crate::error::Error;
use crate::records::{Occupancy, Overdue, Page};

const HOLDING: &str = "status IN ('TEMPORARY', 'CONFIRMED', 'PREPAY_CONFIRM', 'REFUND_PENDING')";

impl Sqlite {
    /// The slot with everybody who holds a place in it.
    pub(crate) async fn slot(&self, id: SlotId) -> Result<Slot, Error> {
        self.readers.ask(move |connection| load(connection, id)).await
    }

    /// These reservations, as far as they exist.
    pub(crate) async fn reservations(&self, ids: Vec<ReservationId>) -> Result<Vec<Reservation>, Error> {
        self.readers
            .ask(move |connection| {
                let mut found = Vec::with_capacity(ids.len());
                let sql = format!("SELECT {RESERVATION} FROM reservation WHERE id = ?");
                let mut select = connection.prepare_cached(&sql)?;
                for id in ids {
                    found.extend(select.query_row([Wide(id.0)], reservation).optional()?);
                }
                Ok(found)
            })
            .await
    }

    /// A person's reservations, newest first, from after the cursor.
    pub(crate) async fn reservations_of(
        &self,
        person: PersonId,
        after: Option<ReservationId>,
        limit: u32,
    ) -> Result<Page<Reservation>, Error> {
        self.readers
            .ask(move |connection| {
                let sql = format!(
                    "SELECT {RESERVATION} FROM reservation WHERE person = ?1 AND (?2 IS NULL OR \
                     (created_at, id) < (SELECT created_at, id FROM reservation WHERE id = ?2 AND person = ?1)) \
                     ORDER BY created_at DESC, id DESC LIMIT ?3"
                );
                let mut select = connection.prepare_cached(&sql)?;
                let after = after.map(|id| Wide(id.0));
                let rows = select.query_map(params![Wide(person.0), after, limit + 1], reservation)?;
                let items = rows.collect::<Result<Vec<_>, _>>()?;
                Ok(Page::of(items, limit, |last| last.id.to_string()))
            })
            .await
    }

    /// A venue's reservations on one day, by time, then in the order in which they were won.
    pub(crate) async fn reservations_on(
        &self,
        venue: VenueId,
        date: Date,
    ) -> Result<Vec<Reservation>, Error> {
        let Some((first, last)) = SlotId::day_range(venue, date) else { return Ok(Vec::new()) };
        self.readers
            .ask(move |connection| {
                let sql = format!(
                    "SELECT {RESERVATION} FROM reservation WHERE slot_id BETWEEN ? AND ? ORDER BY slot_id, ticket"
                );
                let mut select = connection.prepare_cached(&sql)?;
                let rows = select.query_map([first.to_i64(), last.to_i64()], reservation)?;
                Ok(rows.collect::<Result<_, _>>()?)
            })
            .await
    }

    /// What is taken at `now` of a venue's slots, from one to another; slots of which nothing is taken are left out.
    pub(crate) async fn occupancy(
        &self,
        from: SlotId,
        to: SlotId,
        now: Timestamp,
    ) -> Result<Vec<Occupancy>, Error> {
        self.readers
            .ask(move |connection| {
                let sql = format!(
                    "SELECT slot_id, sum(party), count(*), group_concat(table_no), \
                     coalesce(sum(party) FILTER (WHERE status = 'TEMPORARY'), 0), count(*) FILTER (WHERE status = 'TEMPORARY'), \
                     EXISTS (SELECT 1 FROM waiting WHERE waiting.slot_id = reservation.slot_id AND passed >= {MAX_PASSES}) \
                     FROM reservation \
                     WHERE slot_id BETWEEN ?1 AND ?2 AND {HOLDING} AND (status <> 'TEMPORARY' OR expires_at > ?3) \
                     GROUP BY slot_id"
                );
                let mut select = connection.prepare_cached(&sql)?;
                let rows = select.query_map(params![from.to_i64(), to.to_i64(), millis(now)], |row| {
                    let tables: Option<String> = row.get(3)?;
                    let tables = tables.iter().flat_map(|t| t.split(',')).filter_map(|t| t.parse().ok()).collect();
                    let slot = SlotId::from_i64(row.get(0)?);
                    let (people, reservations, kept) = (row.get(1)?, row.get(2)?, row.get(6)?);
                    let (held_people, held_reservations) = (row.get(4)?, row.get(5)?);
                    Ok(Occupancy { slot, people, reservations, held_people, held_reservations, tables, kept })
                })?;
                Ok(rows.collect::<Result<_, _>>()?)
            })
            .await
    }

    /// Holds whose deadline has passed at `now`, the longest overdue first.
    pub(crate) async fn overdue(&self, now: Timestamp, limit: u32) -> Result<Vec<Overdue>, Error> {
        self.readers
            .ask(move |connection| {
                let sql = "SELECT slot_id, id, person FROM reservation INDEXED BY hold_by_deadline \
                           WHERE status = 'TEMPORARY' AND expires_at <= ? ORDER BY expires_at LIMIT ?";
                let mut select = connection.prepare_cached(sql)?;
                let rows = select.query_map(params![millis(now), limit], |row| {
                    Ok(Overdue {
                        slot: SlotId::from_i64(row.get(0)?),
                        reservation: ReservationId(row.get::<_, Wide>(1)?.0),
                        person: PersonId(row.get::<_, Wide>(2)?.0),
                    })
                })?;
                Ok(rows.collect::<Result<_, _>>()?)
            })
            .await
    }
}

impl Sqlite {
    /// When the next hold runs out that has not been written down as expired.
    pub(crate) async fn next_deadline(&self) -> Result<Option<Timestamp>, Error> {
        self.readers
            .ask(|connection| {
                let sql = "SELECT expires_at FROM reservation INDEXED BY hold_by_deadline \
                           WHERE status = 'TEMPORARY' ORDER BY expires_at LIMIT 1";
                let mut select = connection.prepare_cached(sql)?;
                let next = select.query_row([], |row| row.get::<_, Instant>(0)).optional()?;
                Ok(next.map(|instant| instant.0))
            })
            .await
    }
}

fn load(connection: &Connection, id: SlotId) -> Result<Slot, Error> {
    let sql = "SELECT version FROM slot WHERE id = ?";
    let version = connection.prepare_cached(sql)?.query_row([id.to_i64()], |row| row.get(0)).optional()?;
    let Some(version) = version else { return Ok(Slot::empty(id)) };
    let sql = format!("SELECT {RESERVATION} FROM reservation WHERE slot_id = ? AND {HOLDING}");
    let mut select = connection.prepare_cached(&sql)?;
    let holders = select.query_map([id.to_i64()], reservation)?.collect::<Result<Vec<_>, _>>()?;
    let waitlist = waitlist::of_slot(connection, id)?;
    Ok(Slot::restore(id, version, holders).with_waitlist(Waitlist::restore(waitlist)))
}
