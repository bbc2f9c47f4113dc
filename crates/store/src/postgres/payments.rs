//! Payments with providers: what is stored with a batch, what is asked, and what the sweep takes on.

use std::borrow::Cow;

use booking::payment::Refund;
use booking::{EventId, PaymentChange, PaymentId, PersonId, ProviderPayment, RefundId, ReservationId, Won};
use jiff::Timestamp;
use tokio_postgres::Row;

use super::Postgres;
use super::columns::{Columns, Wide, text};
use super::session::Step;
use crate::error::{Error, reason};
use crate::records::{DueRefund, LOOK_AGAIN, LOOK_FIRST, ToLookAt};

/// A statement with the columns of a payment and of one of its refunds, in the place of the dots.
macro_rules! with_payment {
    ($before:literal ... $after:literal) => {
        concat!(
            $before,
            " p.id, p.reservation, p.person, p.provider, p.amount, p.status, p.reference, p.checkout_url, p.deadline, \
             p.created_at, p.requested_at, p.captured, p.pays, p.version, f.id, f.amount, f.status = 'RETURNED', \
             f.created_at ",
            $after
        )
    };
}

const ABOUT: &str = with_payment!(
    "SELECT"
        ..."FROM payment p LEFT JOIN refund f ON f.payment = p.id \
     WHERE p.reservation = ANY ($1::uuid[]) OR p.pays = ANY ($1::uuid[]) ORDER BY p.created_at, p.id, f.created_at, f.id"
);
const ONE: &str = with_payment!(
    "SELECT"
        ..."FROM payment p LEFT JOIN refund f ON f.payment = p.id \
     WHERE p.id = ANY ($1::uuid[]) ORDER BY p.created_at, p.id, f.created_at, f.id"
);
const HEARD: &str = "SELECT n FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS e (provider, id, n) \
     JOIN payment_event USING (provider, id)";
const REQUEST: &str = "UPDATE payment SET status = 'REQUESTED', reference = $2, checkout_url = $3, \
     requested_at = $4::bigint, version = version + 1, look_at = greatest(deadline, $4::bigint), looks = 0 \
     WHERE id = $1 AND status = 'READY' RETURNING 1";
/// What another process has in hand already is passed over.
const LOOK: &str = "UPDATE payment SET look_at = $1::bigint + $2::bigint, looks = looks + 1 WHERE id IN (SELECT id \
     FROM payment WHERE status IN ('READY', 'REQUESTED') AND look_at <= $1 ORDER BY look_at LIMIT $3 \
     FOR UPDATE SKIP LOCKED) RETURNING id, looks";
const ASK: &str = "UPDATE refund SET ask_at = $1::bigint + $2::bigint, asked = asked + 1 WHERE id IN (SELECT id \
     FROM refund WHERE status = 'DUE' AND ask_at <= $1 ORDER BY ask_at LIMIT $3 FOR UPDATE SKIP LOCKED) \
     RETURNING id, payment, amount, asked";
const UPDATE: &str = "WITH changed AS (UPDATE payment SET status = $3, captured = $4, pays = $5, version = $6 \
     WHERE id = $1 AND version = $2 RETURNING 1) \
     SELECT CASE WHEN EXISTS (SELECT FROM changed) THEN 0 ELSE refuse($7) END";
const BEGIN: &str = "INSERT INTO payment (id, reservation, person, provider, amount, status, deadline, created_at, \
     captured, pays, version, look_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)";
const REFUND: &str = "INSERT INTO refund (id, payment, amount, status, created_at, ask_at) \
     VALUES ($1, $2, $3, $4, $5, $5) ON CONFLICT (id) DO UPDATE SET status = excluded.status";
const HEAR: &str = "INSERT INTO payment_event (provider, id, payment, at) \
     SELECT e.*, $4::bigint FROM unnest($1::text[], $2::text[], $3::uuid[]) AS e";

impl Postgres {
    /// Payments that were begun for these reservations, or have paid for them.
    pub(crate) async fn payments_about(
        &self,
        reservations: Vec<ReservationId>,
    ) -> Result<Vec<ProviderPayment>, Error> {
        let ids: Vec<_> = reservations.into_iter().map(|id| Wide(id.0)).collect();
        payments(&self.ask(ABOUT, &[&ids]).await?)
    }

    /// One payment.
    pub(crate) async fn payment(&self, id: PaymentId) -> Result<Option<ProviderPayment>, Error> {
        Ok(payments(&self.ask(ONE, &[&vec![Wide(id.0)]]).await?)?.pop())
    }

    /// Those of these events that were heard before.
    pub(crate) async fn events_heard(&self, events: Vec<EventId>) -> Result<Vec<EventId>, Error> {
        let provider: Vec<_> = events.iter().map(|event| text(&event.provider)).collect();
        let id: Vec<_> = events.iter().map(|event| text(&event.id)).collect();
        let rows = self.ask(HEARD, &[&provider, &id]).await?;
        let heard = rows.iter().filter_map(|row| usize::try_from(row.try_get::<_, i64>(0).ok()? - 1).ok());
        Ok(heard.filter_map(|n| events.get(n).cloned()).collect())
    }

    /// The provider has taken a payment on, and calls it so; whether it was still to be.
    pub(crate) async fn request_payment(
        &self,
        id: PaymentId,
        reference: String,
        checkout_url: String,
        at: Timestamp,
    ) -> Result<bool, Error> {
        let (reference, url) = (text(&reference), text(&checkout_url));
        let rows = self.ask(REQUEST, &[&Wide(id.0), &reference, &url, &at.as_millisecond()]).await?;
        Ok(!rows.is_empty())
    }

    /// Open payments whose time has come to be looked at; nobody else is given them for a while.
    pub(crate) async fn payments_to_look_at(
        &self,
        now: Timestamp,
        limit: u32,
    ) -> Result<Vec<ToLookAt>, Error> {
        let claimed = self.ask(LOOK, &[&now.as_millisecond(), &LOOK_AGAIN, &i64::from(limit)]).await?;
        let claim = |row: &Row| {
            let mut columns = Columns::of(row, "a payment");
            Ok((PaymentId(columns.id()?), columns.number()?))
        };
        let claimed = claimed.iter().map(claim).collect::<Result<Vec<(PaymentId, u32)>, Error>>()?;
        let found = self.payments_of(claimed.iter().map(|(id, _)| *id)).await?;
        let looks = |id| claimed.iter().find(|(claimed, _)| *claimed == id).map_or(1, |(_, looks)| *looks);
        Ok(found.into_iter().map(|payment| ToLookAt { looks: looks(payment.id), payment }).collect())
    }

    /// Refunds for which a provider is to be asked; nobody else is given them for a while.
    pub(crate) async fn refunds_to_ask_for(
        &self,
        now: Timestamp,
        limit: u32,
    ) -> Result<Vec<DueRefund>, Error> {
        let claimed = self.ask(ASK, &[&now.as_millisecond(), &LOOK_AGAIN, &i64::from(limit)]).await?;
        let claim = |row: &Row| {
            let mut columns = Columns::of(row, "a refund");
            let (id, payment) = (RefundId(columns.id()?), PaymentId(columns.id()?));
            Ok((id, payment, columns.won()?, columns.number()?))
        };
        let claimed = claimed.iter().map(claim).collect::<Result<Vec<(_, _, _, u32)>, Error>>()?;
        let found = self.payments_of(claimed.iter().map(|claim| claim.1)).await?;
        let due = claimed.into_iter().filter_map(|(id, payment, amount, asked)| {
            let payment = found.iter().find(|found| found.id == payment)?.clone();
            Some(DueRefund { id, amount, asked, payment })
        });
        Ok(due.collect())
    }

    /// The provider is asked for this refund again, but not before this instant.
    pub(crate) async fn ask_again(&self, id: RefundId, at: Timestamp) -> Result<(), Error> {
        let sql = "UPDATE refund SET ask_at = $1 WHERE id = $2 AND status = 'DUE'";
        self.ask(sql, &[&at.as_millisecond(), &Wide(id.0)]).await?;
        Ok(())
    }

    /// What is on its way back: how many refunds, and how much.
    pub(crate) async fn refunds_due(&self) -> Result<(u64, Won), Error> {
        let sql = "SELECT count(*), coalesce(sum(amount), 0)::bigint FROM refund WHERE status = 'DUE'";
        let rows = self.ask(sql, &[]).await?;
        let row = rows.first().ok_or(Error::Unreadable { what: "the refunds" })?;
        let mut columns = Columns::of(row, "the refunds");
        Ok((columns.number()?, columns.won()?))
    }

    async fn payments_of(&self, ids: impl Iterator<Item = PaymentId>) -> Result<Vec<ProviderPayment>, Error> {
        let ids: Vec<_> = ids.map(|id| Wide(id.0)).collect();
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        payments(&self.ask(ONE, &[&ids]).await?)
    }
}

fn payments(rows: &[Row]) -> Result<Vec<ProviderPayment>, Error> {
    let mut found: Vec<ProviderPayment> = Vec::new();
    for row in rows {
        let mut columns = Columns::of(row, "a payment");
        let payment = columns.payment()?;
        if found.last().is_none_or(|last| last.id != payment.id) {
            found.push(payment);
        }
        let Some(id) = columns.optional_id()? else { continue };
        let refund = Refund {
            id: RefundId(id),
            amount: columns.won()?,
            returned: columns.take()?,
            created_at: columns.instant()?,
        };
        found.last_mut().into_iter().for_each(|payment| payment.refunds.push(refund));
    }
    Ok(found)
}

impl Columns<'_> {
    fn payment(&mut self) -> Result<ProviderPayment, Error> {
        Ok(ProviderPayment {
            id: PaymentId(self.id()?),
            reservation: ReservationId(self.id()?),
            person: PersonId(self.id()?),
            provider: self.take::<&str>()?.into(),
            amount: self.won()?,
            status: self.name()?,
            reference: self.take::<Option<&str>>()?.map(Into::into),
            checkout_url: self.take::<Option<&str>>()?.map(Into::into),
            deadline: self.instant()?,
            created_at: self.instant()?,
            requested_at: self.optional_instant()?,
            captured: self.won()?,
            pays: self.optional_id()?.map(ReservationId),
            version: self.number()?,
            refunds: Vec::new(),
        })
    }
}

/// What a batch does about payments.
pub(super) struct PaymentRows<'a> {
    changed: Vec<PaymentRow<'a>>,
    begun: Vec<PaymentRow<'a>>,
    refunds: Vec<RefundRow>,
    provider: Vec<Cow<'a, str>>,
    event: Vec<Cow<'a, str>>,
    payment: Vec<Wide>,
}

struct PaymentRow<'a> {
    id: Wide,
    from: i64,
    reservation: Wide,
    person: Wide,
    provider: Cow<'a, str>,
    amount: i64,
    status: &'static str,
    deadline: i64,
    created_at: i64,
    captured: i64,
    pays: Option<Wide>,
    version: i64,
    look_at: i64,
}

struct RefundRow {
    id: Wide,
    payment: Wide,
    amount: i64,
    status: &'static str,
    created_at: i64,
}

impl<'a> PaymentRow<'a> {
    fn of(change: &'a PaymentChange) -> Self {
        let p = &change.after;
        Self {
            id: Wide(p.id.0),
            from: change.from_version.into(),
            reservation: Wide(p.reservation.0),
            person: Wide(p.person.0),
            provider: text(&p.provider),
            amount: p.amount.0,
            status: p.status.as_str(),
            deadline: p.deadline.as_millisecond(),
            created_at: p.created_at.as_millisecond(),
            captured: p.captured.0,
            pays: p.pays.map(|id| Wide(id.0)),
            version: p.version.into(),
            look_at: p.created_at.as_millisecond() + LOOK_FIRST,
        }
    }
}

impl<'a> PaymentRows<'a> {
    pub(super) fn of(payments: &'a [PaymentChange], events: &'a [(EventId, PaymentId)]) -> Self {
        let rows = payments.iter().map(PaymentRow::of);
        let (begun, changed) = rows.partition(|row| row.from == 0);
        let refunds = payments.iter().flat_map(|PaymentChange { after, .. }| {
            after.refunds.iter().map(|refund| RefundRow {
                id: Wide(refund.id.0),
                payment: Wide(after.id.0),
                amount: refund.amount.0,
                status: if refund.returned { "RETURNED" } else { "DUE" },
                created_at: refund.created_at.as_millisecond(),
            })
        });
        Self {
            changed,
            begun,
            refunds: refunds.collect(),
            provider: events.iter().map(|(event, _)| text(&event.provider)).collect(),
            event: events.iter().map(|(event, _)| text(&event.id)).collect(),
            payment: events.iter().map(|(_, payment)| Wide(payment.0)).collect(),
        }
    }

    /// What ends before what begins, so that one at a time is open.
    pub(super) fn push_to<'b>(&'b self, steps: &mut Vec<Step<'b>>, at: &'b i64) {
        for row in &self.changed {
            let PaymentRow { id, from, status, captured, pays, version, .. } = row;
            steps.push(Step::new(UPDATE, &[id, from, status, captured, pays, version, &reason::STALE]));
        }
        for row in &self.begun {
            let values: [&(dyn tokio_postgres::types::ToSql + Sync); 12] = [
                &row.id,
                &row.reservation,
                &row.person,
                &row.provider,
                &row.amount,
                &row.status,
                &row.deadline,
                &row.created_at,
                &row.captured,
                &row.pays,
                &row.version,
                &row.look_at,
            ];
            steps.push(Step::new(BEGIN, &values));
        }
        for RefundRow { id, payment, amount, status, created_at } in &self.refunds {
            steps.push(Step::new(REFUND, &[id, payment, amount, status, created_at]));
        }
        if !self.event.is_empty() {
            steps.push(Step::new(HEAR, &[&self.provider, &self.event, &self.payment, at]));
        }
    }
}
