//! Storing a batch: the condition, what frees, what takes, the money, the log; all of it or nothing.

use std::collections::BTreeSet;

use booking::{Change, Movement, Reservation, SlotId, TicketId};
use rusqlite::{Connection, params};

use super::rooms::finish;
use super::{Sqlite, millis, payments, waitlist};
use crate::error::{CommitError, Unique};
use crate::records::{Batch, StoredKey, order_text, seats_text};

impl Sqlite {
    /// Stores a batch if slot and venue are as they were when it was decided; the slot's new version.
    pub(crate) async fn commit(&self, batch: Batch) -> Result<u64, CommitError> {
        #[cfg(feature = "controls")]
        if !self.controls.version_check {
            let carelessly = move |connection: &Connection| {
                let version = advance_regardless(connection, &batch)?;
                store(connection, &batch, version)
            };
            return self.writer.run(carelessly).await;
        }
        self.writer
            .run(move |connection| {
                let version = advance(connection, &batch)?;
                store(connection, &batch, version)
            })
            .await
    }
}

fn store(connection: &Connection, batch: &Batch, version: u64) -> Result<u64, CommitError> {
    let (freed, kept): (Vec<_>, Vec<_>) =
        batch.changes.changed.iter().partition(|change| !change.after.status().holds_places());
    for change in &freed {
        update(connection, change)?;
        leave_seats(connection, &change.after)?;
    }
    // Tables and seats are swapped by letting go of all of them before any is taken.
    for change in kept.iter().filter(|change| change.frees) {
        let mut leave = connection.prepare_cached("UPDATE reservation SET table_no = NULL WHERE id = ?")?;
        leave.execute([change.after.id.0.to_be_bytes()])?;
        leave_seats(connection, &change.after)?;
    }
    for change in &kept {
        update(connection, change)?;
    }
    for change in kept.iter().filter(|change| change.frees) {
        take_seats(connection, &change.after)?;
    }
    let left: BTreeSet<SlotId> = batch.changes.changed.iter().filter_map(|change| change.from_slot).collect();
    for slot in left {
        let mut bump = connection.prepare_cached("UPDATE slot SET version = version + 1 WHERE id = ?")?;
        bump.execute([slot.to_i64()])?;
    }
    for reservation in &batch.changes.new {
        insert(connection, reservation)?;
        if reservation.status().holds_places() {
            take_seats(connection, reservation)?;
        }
    }
    waitlist::store(connection, batch)?;
    for movement in &batch.changes.movements {
        move_money(connection, movement, millis(batch.decided_at))?;
    }
    let changes = &batch.changes;
    payments::store(connection, &changes.payments, &changes.events, millis(batch.decided_at))?;
    finish(connection, batch.slot.venue(), &batch.payers(), millis(batch.decided_at))?;
    for key in &batch.keys {
        remember(connection, key, millis(batch.decided_at))?;
    }
    log(connection, batch, version)?;
    Ok(version)
}

/// The condition: moves the slot's version on, from exactly the one that the batch was decided from.
fn advance(connection: &Connection, batch: &Batch) -> Result<u64, CommitError> {
    let venue_sql = "SELECT 1 FROM venue WHERE id = ?1 AND version = ?2";
    let venue = params![batch.slot.venue().0, batch.venue_version];
    if !connection.prepare_cached(venue_sql)?.exists(venue)? {
        return Err(CommitError::Stale);
    }
    let sql = if batch.slot_version == 0 {
        "INSERT INTO slot (id, version) VALUES (?1, ?2 + 1) ON CONFLICT DO NOTHING"
    } else {
        "UPDATE slot SET version = ?2 + 1 WHERE id = ?1 AND version = ?2"
    };
    let changed =
        connection.prepare_cached(sql)?.execute(params![batch.slot.to_i64(), batch.slot_version])?;
    if changed == 1 { Ok(batch.slot_version + 1) } else { Err(CommitError::Stale) }
}

/// What the condition protects from: moves the version on from wherever it is.
#[cfg(feature = "controls")]
fn advance_regardless(connection: &Connection, batch: &Batch) -> Result<u64, CommitError> {
    let sql = "INSERT INTO slot (id, version) VALUES (?, 1) \
               ON CONFLICT (id) DO UPDATE SET version = version + 1 RETURNING version";
    Ok(connection.prepare_cached(sql)?.query_row([batch.slot.to_i64()], |row| row.get(0))?)
}

fn update(connection: &Connection, change: &Change) -> Result<(), CommitError> {
    let r = &change.after;
    let sql = "UPDATE reservation SET slot_id = ?3, status = ?4, party = ?5, table_no = ?6, price = ?7, paid = ?8, \
               refunded = ?9, refund_due = ?10, version = ?11, expires_at = ?12, seats = ?13 WHERE id = ?1 AND version = ?2";
    let values = params![
        r.id.0.to_be_bytes(),
        change.from_version,
        r.slot.to_i64(),
        r.status().as_str(),
        r.party,
        r.table,
        r.price.0,
        r.paid.0,
        r.refunded.0,
        r.refund_due.0,
        r.version,
        millis(r.expires_at),
        seats_text(&r.seats),
    ];
    match connection.prepare_cached(sql)?.execute(values) {
        Ok(1) => Ok(()),
        // Its row has moved on although the slot has not: it came from another slot, and was changed there.
        Ok(_) => Err(CommitError::Stale),
        Err(error) => Err(refused(error, change.ticket)),
    }
}

fn insert(connection: &Connection, r: &Reservation) -> Result<(), CommitError> {
    let sql = "INSERT INTO reservation (id, slot_id, person, name, status, party, table_no, payment, items, price, paid, \
               refunded, refund_due, expires_at, note, ticket, created_at, version, reseats, seats, offered) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21)";
    let values = params![
        r.id.0.to_be_bytes(),
        r.slot.to_i64(),
        r.person.0.to_be_bytes(),
        r.name,
        r.status().as_str(),
        r.party,
        r.table,
        r.payment.as_str(),
        order_text(&r.order),
        r.price.0,
        r.paid.0,
        r.refunded.0,
        r.refund_due.0,
        millis(r.expires_at),
        r.note,
        r.ticket.to_u128().to_be_bytes(),
        millis(r.created_at),
        r.version,
        r.reseats.map(|id| id.0.to_be_bytes()),
        seats_text(&r.seats),
        r.offered,
    ];
    match connection.prepare_cached(sql)?.execute(values) {
        Ok(_) => Ok(()),
        Err(error) => Err(refused(error, Some(r.ticket))),
    }
}

/// Takes the seats of a reservation: the database itself forbids one that is held (C6).
fn take_seats(connection: &Connection, r: &Reservation) -> Result<(), CommitError> {
    let sql = "INSERT INTO held_seat (slot_id, seat, reservation) VALUES (?, ?, ?)";
    for seat in r.seats.iter() {
        let values = params![r.slot.to_i64(), seat.as_str(), r.id.0.to_be_bytes()];
        let taken = connection.prepare_cached(sql)?.execute(values);
        taken.map_err(|error| refused(error, Some(r.ticket)))?;
    }
    Ok(())
}

fn leave_seats(connection: &Connection, r: &Reservation) -> Result<(), CommitError> {
    if !r.seats.is_empty() {
        let mut leave = connection.prepare_cached("DELETE FROM held_seat WHERE reservation = ?")?;
        leave.execute([r.id.0.to_be_bytes()])?;
    }
    Ok(())
}

/// What a violated constraint means for the batch.
fn refused(error: rusqlite::Error, ticket: Option<TicketId>) -> CommitError {
    match (Unique::violated(&error), ticket) {
        (Some(Unique::ReservationOfTicket), Some(ticket)) => CommitError::Decided(ticket),
        (Some(Unique::Reservation), Some(ticket)) => CommitError::Made(ticket),
        // The rows say what the decision did not know: it was made from an old copy.
        (Some(Unique::PlaceOfPerson | Unique::PartyOfTable | Unique::HolderOfSeat), _) => CommitError::Stale,
        _ => error.into(),
    }
}

pub(super) fn move_money(connection: &Connection, movement: &Movement, at: i64) -> Result<(), CommitError> {
    let person = movement.person.0.to_be_bytes();
    let sql = "UPDATE wallet SET balance = balance + ?2, version = version + 1 \
               WHERE person = ?1 AND balance + ?2 >= 0 RETURNING balance";
    let mut debit = connection.prepare_cached(sql)?;
    let balance: i64 = match debit.query_row(params![person, movement.amount.0], |row| row.get(0)) {
        Ok(balance) => balance,
        Err(rusqlite::Error::QueryReturnedNoRows) => return Err(CommitError::Short(movement.ticket)),
        Err(error) => return Err(error.into()),
    };
    let sql =
        "INSERT INTO wallet_entry (person, amount, balance, kind, reservation, at) VALUES (?, ?, ?, ?, ?, ?)";
    let kind = movement.kind.as_str();
    let values = params![person, movement.amount.0, balance, kind, movement.reservation.0.to_be_bytes(), at];
    connection.prepare_cached(sql)?.execute(values)?;
    Ok(())
}

fn remember(connection: &Connection, key: &StoredKey, at: i64) -> Result<(), CommitError> {
    let sql = "INSERT INTO request_key (person, key, body, ticket, at) VALUES (?, ?, ?, ?, ?)";
    let ticket = key.request.ticket.to_u128().to_be_bytes();
    let values = params![key.person.0.to_be_bytes(), key.key, key.request.body, ticket, at];
    match connection.prepare_cached(sql)?.execute(values) {
        Ok(_) => Ok(()),
        Err(error) if Unique::violated(&error) == Some(Unique::RequestKey) => {
            Err(CommitError::KeyUsed(key.request.ticket))
        }
        Err(error) => Err(error.into()),
    }
}

fn log(connection: &Connection, batch: &Batch, version: u64) -> Result<(), CommitError> {
    let (guests, owners) = (batch.guests(), batch.owners());
    let sql = "INSERT INTO decision (slot_id, version, decided_at, guests_from, guests_to, owners_from, owners_to, \
               decisions) VALUES (?, ?, ?, ?, ?, ?, ?, ?)";
    let values = params![
        batch.slot.to_i64(),
        version,
        millis(batch.decided_at),
        guests.map(|(from, _)| from),
        guests.map(|(_, to)| to),
        owners.map(|(from, _)| from),
        owners.map(|(_, to)| to),
        batch.log()?,
    ];
    connection.prepare_cached(sql)?.execute(values)?;
    Ok(())
}
