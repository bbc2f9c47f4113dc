//! Payments with providers: what is stored with a batch, what is asked, and what the sweep takes on.

use std::sync::Arc;

use booking::payment::Refund;
use booking::{EventId, PaymentChange, PaymentId, PersonId, ProviderPayment, RefundId, ReservationId, Won};
use jiff::Timestamp;
use rusqlite::{Connection, Row, ToSql, params};

use super::columns::{Instant, Wide, name};
use super::{Sqlite, millis};
use crate::error::{CommitError, Error, Unique};
use crate::records::{DueRefund, LOOK_AGAIN, LOOK_FIRST, ToLookAt};

const PAYMENT: &str = "p.id, p.reservation, p.person, p.provider, p.amount, p.status, p.reference, p.checkout_url, \
                       p.deadline, p.created_at, p.requested_at, p.captured, p.pays, p.version, \
                       f.id, f.amount, f.status = 'RETURNED', f.created_at";

impl Sqlite {
    /// Payments that were begun for these reservations, or have paid for them.
    pub(crate) async fn payments_about(
        &self,
        reservations: Vec<ReservationId>,
    ) -> Result<Vec<ProviderPayment>, Error> {
        self.readers
            .ask(move |connection| {
                let mut found: Vec<ProviderPayment> = Vec::new();
                for id in reservations {
                    let about = select(connection, "p.reservation = ?1 OR p.pays = ?1", &[&Wide(id.0)])?;
                    let new = about.into_iter().filter(|new| found.iter().all(|known| known.id != new.id));
                    let new: Vec<_> = new.collect();
                    found.extend(new);
                }
                Ok(found)
            })
            .await
    }

    /// One payment.
    pub(crate) async fn payment(&self, id: PaymentId) -> Result<Option<ProviderPayment>, Error> {
        self.readers.ask(move |connection| Ok(select(connection, "p.id = ?1", &[&Wide(id.0)])?.pop())).await
    }

    /// Those of these events that were heard before.
    pub(crate) async fn events_heard(&self, events: Vec<EventId>) -> Result<Vec<EventId>, Error> {
        self.readers
            .ask(move |connection| {
                let sql = "SELECT 1 FROM payment_event WHERE provider = ? AND id = ?";
                let mut known = connection.prepare_cached(sql)?;
                let mut heard = Vec::new();
                for event in events {
                    if known.exists(params![event.provider, event.id])? {
                        heard.push(event);
                    }
                }
                Ok(heard)
            })
            .await
    }

    /// The provider has taken a payment on, and calls it so; whether it was still to be.
    pub(crate) async fn request_payment(
        &self,
        id: PaymentId,
        reference: String,
        checkout_url: String,
        at: Timestamp,
    ) -> Result<bool, Error> {
        self.writer
            .run(move |connection| {
                let sql = "UPDATE payment SET status = 'REQUESTED', reference = ?2, checkout_url = ?3, \
                           requested_at = ?4, version = version + 1, look_at = max(deadline, ?4), looks = 0 \
                           WHERE id = ?1 AND status = 'READY'";
                let values = params![Wide(id.0), reference, checkout_url, millis(at)];
                Ok(connection.prepare_cached(sql)?.execute(values)? == 1)
            })
            .await
    }

    /// Open payments whose time has come to be looked at; nobody else is given them for a while.
    pub(crate) async fn payments_to_look_at(
        &self,
        now: Timestamp,
        limit: u32,
    ) -> Result<Vec<ToLookAt>, Error> {
        self.writer
            .run(move |connection| {
                let sql = "UPDATE payment SET look_at = ?1 + ?2, looks = looks + 1 WHERE id IN (SELECT id FROM payment \
                           WHERE status IN ('READY', 'REQUESTED') AND look_at <= ?1 ORDER BY look_at LIMIT ?3) \
                           RETURNING id, looks";
                let mut claim = connection.prepare_cached(sql)?;
                let rows = claim.query_map(params![millis(now), LOOK_AGAIN, limit], |row| {
                    Ok((row.get::<_, Wide>(0)?, row.get(1)?))
                })?;
                let mut found = Vec::new();
                for (id, looks) in rows.collect::<Result<Vec<(Wide, u32)>, _>>()? {
                    let payment = select(connection, "p.id = ?1", &[&id])?.pop();
                    found.extend(payment.map(|payment| ToLookAt { payment, looks }));
                }
                Ok(found)
            })
            .await
    }

    /// Refunds for which a provider is to be asked; nobody else is given them for a while.
    pub(crate) async fn refunds_to_ask_for(
        &self,
        now: Timestamp,
        limit: u32,
    ) -> Result<Vec<DueRefund>, Error> {
        self.writer
            .run(move |connection| {
                let sql = "UPDATE refund SET ask_at = ?1 + ?2, asked = asked + 1 WHERE id IN (SELECT id FROM refund \
                           WHERE status = 'DUE' AND ask_at <= ?1 ORDER BY ask_at LIMIT ?3) \
                           RETURNING id, payment, amount, asked";
                let mut claim = connection.prepare_cached(sql)?;
                let rows = claim.query_map(params![millis(now), LOOK_AGAIN, limit], |row| {
                    let (id, payment): (Wide, Wide) = (row.get(0)?, row.get(1)?);
                    Ok((RefundId(id.0), payment, Won(row.get(2)?), row.get(3)?))
                })?;
                let mut found = Vec::new();
                for (id, payment, amount, asked) in rows.collect::<Result<Vec<_>, _>>()? {
                    let payment = select(connection, "p.id = ?1", &[&payment])?.pop();
                    found.extend(payment.map(|payment| DueRefund { id, amount, asked, payment }));
                }
                Ok(found)
            })
            .await
    }

    /// The provider is asked for this refund again, but not before this instant.
    pub(crate) async fn ask_again(&self, id: RefundId, at: Timestamp) -> Result<(), Error> {
        self.writer
            .run(move |connection| {
                let sql = "UPDATE refund SET ask_at = ? WHERE id = ? AND status = 'DUE'";
                connection.prepare_cached(sql)?.execute(params![millis(at), Wide(id.0)])?;
                Ok(())
            })
            .await
    }

    /// What is on its way back: how many refunds, and how much.
    pub(crate) async fn refunds_due(&self) -> Result<(u64, Won), Error> {
        self.readers
            .ask(|connection| {
                let sql = "SELECT count(*), coalesce(sum(amount), 0) FROM refund WHERE status = 'DUE'";
                let mut count = connection.prepare_cached(sql)?;
                Ok(count.query_row([], |row| Ok((row.get(0)?, Won(row.get(1)?))))?)
            })
            .await
    }
}

fn select(
    connection: &Connection,
    condition: &str,
    values: &[&dyn ToSql],
) -> Result<Vec<ProviderPayment>, Error> {
    let sql = format!(
        "SELECT {PAYMENT} FROM payment p LEFT JOIN refund f ON f.payment = p.id WHERE {condition} \
         ORDER BY p.created_at, p.id, f.created_at, f.id"
    );
    let mut select = connection.prepare_cached(&sql)?;
    let rows = select.query_map(values, |row| Ok((payment(row)?, refund(row)?)))?;
    let mut found: Vec<ProviderPayment> = Vec::new();
    for row in rows {
        let (payment, refund) = row?;
        if found.last().is_none_or(|last| last.id != payment.id) {
            found.push(payment);
        }
        found.last_mut().into_iter().for_each(|payment| payment.refunds.extend(refund));
    }
    Ok(found)
}

fn payment(row: &Row<'_>) -> rusqlite::Result<ProviderPayment> {
    Ok(ProviderPayment {
        id: PaymentId(row.get::<_, Wide>(0)?.0),
        reservation: ReservationId(row.get::<_, Wide>(1)?.0),
        person: PersonId(row.get::<_, Wide>(2)?.0),
        provider: row.get::<_, Arc<str>>(3)?,
        amount: Won(row.get(4)?),
        status: name(row, 5)?,
        reference: row.get::<_, Option<Arc<str>>>(6)?,
        checkout_url: row.get::<_, Option<Arc<str>>>(7)?,
        deadline: row.get::<_, Instant>(8)?.0,
        created_at: row.get::<_, Instant>(9)?.0,
        requested_at: row.get::<_, Option<Instant>>(10)?.map(|at| at.0),
        captured: Won(row.get(11)?),
        pays: row.get::<_, Option<Wide>>(12)?.map(|id| ReservationId(id.0)),
        version: row.get(13)?,
        refunds: Vec::new(),
    })
}

fn refund(row: &Row<'_>) -> rusqlite::Result<Option<Refund>> {
    let Some(Wide(id)) = row.get(14)? else { return Ok(None) };
    Ok(Some(Refund {
        id: RefundId(id),
        amount: Won(row.get(15)?),
        returned: row.get(16)?,
        created_at: row.get::<_, Instant>(17)?.0,
    }))
}

/// Stores what a batch does about payments: what ends before what begins, so that one at a time is open.
pub(super) fn store(
    connection: &Connection,
    payments: &[PaymentChange],
    events: &[(EventId, PaymentId)],
    at: i64,
) -> Result<(), CommitError> {
    let (begun, changed): (Vec<_>, Vec<_>) = payments.iter().partition(|change| change.from_version == 0);
    for change in changed {
        update(connection, change)?;
    }
    for change in begun {
        insert(connection, &change.after).map_err(stale)?;
    }
    for PaymentChange { after, .. } in payments {
        for refund in &after.refunds {
            put_refund(connection, after.id, refund)?;
        }
    }
    let sql = "INSERT INTO payment_event (provider, id, payment, at) VALUES (?, ?, ?, ?)";
    for (event, payment) in events {
        let values = params![event.provider, event.id, Wide(payment.0), at];
        connection.prepare_cached(sql)?.execute(values).map_err(stale)?;
    }
    Ok(())
}

/// The rows say what the decision did not know: it was made from an old copy.
fn stale(error: rusqlite::Error) -> CommitError {
    match Unique::violated(&error) {
        Some(Unique::Payment | Unique::OpenPayment | Unique::PaymentOfReservation | Unique::Event) => {
            CommitError::Stale
        }
        _ => error.into(),
    }
}

fn update(connection: &Connection, change: &PaymentChange) -> Result<(), CommitError> {
    let p = &change.after;
    let sql = "UPDATE payment SET status = ?3, captured = ?4, pays = ?5, version = ?6 WHERE id = ?1 AND version = ?2";
    let pays = p.pays.map(|id| Wide(id.0));
    let values = params![Wide(p.id.0), change.from_version, p.status.as_str(), p.captured.0, pays, p.version];
    match connection.prepare_cached(sql)?.execute(values) {
        Ok(1) => Ok(()),
        Ok(_) => Err(CommitError::Stale),
        Err(error) => Err(stale(error)),
    }
}

fn insert(connection: &Connection, p: &ProviderPayment) -> rusqlite::Result<()> {
    let sql = "INSERT INTO payment (id, reservation, person, provider, amount, status, deadline, created_at, captured, \
               pays, version, look_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
    let values = params![
        Wide(p.id.0),
        Wide(p.reservation.0),
        Wide(p.person.0),
        p.provider,
        p.amount.0,
        p.status.as_str(),
        millis(p.deadline),
        millis(p.created_at),
        p.captured.0,
        p.pays.map(|id| Wide(id.0)),
        p.version,
        millis(p.created_at) + LOOK_FIRST,
    ];
    connection.prepare_cached(sql)?.execute(values)?;
    Ok(())
}

fn put_refund(connection: &Connection, payment: PaymentId, refund: &Refund) -> Result<(), CommitError> {
    let sql = "INSERT INTO refund (id, payment, amount, status, created_at, ask_at) VALUES (?1, ?2, ?3, ?4, ?5, ?5) \
               ON CONFLICT (id) DO UPDATE SET status = excluded.status";
    let status = if refund.returned { "RETURNED" } else { "DUE" };
    let (id, payment) = (Wide(refund.id.0), Wide(payment.0));
    let values = params![id, payment, refund.amount.0, status, millis(refund.created_at)];
    connection.prepare_cached(sql)?.execute(values)?;
    Ok(())
}
