//! How domain types are kept in columns, and read back.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::sync::Arc;

use booking::{Life, OrderLine, PersonId, Reservation, ReservationId, SlotId, TicketId, Won};
use bytes::{BufMut, BytesMut};
use jiff::Timestamp;
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, accepts, to_sql_checked};

use crate::error::Error;
use crate::records::seats_in;

type Problem = Box<dyn StdError + Sync + Send>;

/// An id of 128 bits, as a uuid.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wide(pub u128);

impl ToSql for Wide {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Problem> {
        out.put_slice(&self.0.to_be_bytes());
        Ok(IsNull::No)
    }

    accepts!(UUID);
    to_sql_checked!();
}

impl<'a> FromSql<'a> for Wide {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Problem> {
        Ok(Self(u128::from_be_bytes(raw.try_into()?)))
    }

    accepts!(UUID);
}

/// What the server writes of an id in an error's detail.
pub(super) fn id_in(detail: &str) -> Option<u128> {
    u128::from_str_radix(&detail.replace('-', ""), 16).ok()
}

/// Text as the server takes it: one character that it has no place for must not take down a batch.
pub(super) fn text(text: &str) -> Cow<'_, str> {
    if text.contains('\0') { text.replace('\0', "\u{fffd}").into() } else { text.into() }
}

/// Versions are kept in 64 bits with a sign; none comes near it.
pub(super) fn version(version: u64) -> i64 {
    i64::try_from(version).unwrap_or(i64::MAX)
}

/// The columns of a row from some place on, read one after the other.
pub(super) struct Columns<'a> {
    row: &'a Row,
    next: usize,
    what: &'static str,
}

impl<'a> Columns<'a> {
    pub(super) fn of(row: &'a Row, what: &'static str) -> Self {
        Self { row, next: 0, what }
    }

    pub(super) fn unreadable(&self) -> Error {
        Error::Unreadable { what: self.what }
    }

    pub(super) fn take<T: FromSql<'a>>(&mut self) -> Result<T, Error> {
        let value = self.row.try_get(self.next).map_err(|_| self.unreadable());
        self.next += 1;
        value
    }

    pub(super) fn id(&mut self) -> Result<u128, Error> {
        self.take::<Wide>().map(|id| id.0)
    }

    pub(super) fn optional_id(&mut self) -> Result<Option<u128>, Error> {
        self.take::<Option<Wide>>().map(|id| id.map(|id| id.0))
    }

    /// A number that is kept wider than it is.
    pub(super) fn number<T: TryFrom<i64>>(&mut self) -> Result<T, Error> {
        let number: i64 = self.take()?;
        number.try_into().map_err(|_| self.unreadable())
    }

    pub(super) fn numbers<T: TryFrom<i64>>(&mut self) -> Result<Vec<T>, Error> {
        let numbers: Vec<i64> = self.take()?;
        numbers.into_iter().map(|n| n.try_into().map_err(|_| self.unreadable())).collect()
    }

    pub(super) fn won(&mut self) -> Result<Won, Error> {
        self.take().map(Won)
    }

    pub(super) fn slot(&mut self) -> Result<SlotId, Error> {
        self.take().map(SlotId::from_i64)
    }

    /// An instant, in milliseconds.
    pub(super) fn instant(&mut self) -> Result<Timestamp, Error> {
        let millis: i64 = self.take()?;
        Timestamp::from_millisecond(millis).map_err(|_| self.unreadable())
    }

    pub(super) fn optional_instant(&mut self) -> Result<Option<Timestamp>, Error> {
        let millis: Option<i64> = self.take()?;
        millis.map(|millis| Timestamp::from_millisecond(millis).map_err(|_| self.unreadable())).transpose()
    }

    /// A name out of a closed set.
    pub(super) fn name<T: std::str::FromStr>(&mut self) -> Result<T, Error> {
        let name: &str = self.take()?;
        name.parse().map_err(|_| self.unreadable())
    }

    /// A reservation from the columns of `with_reservation`.
    pub(super) fn reservation(&mut self) -> Result<Reservation, Error> {
        Ok(Reservation {
            id: ReservationId(self.id()?),
            slot: self.slot()?,
            person: PersonId(self.id()?),
            name: Arc::from(self.take::<&str>()?),
            life: Life::stored(self.name()?),
            party: self.number()?,
            table: self.optional_number()?,
            payment: self.name()?,
            order: self.order()?,
            price: self.won()?,
            paid: self.won()?,
            refunded: self.won()?,
            refund_due: self.won()?,
            expires_at: self.instant()?,
            note: self.take::<Option<&str>>()?.map(Arc::from),
            ticket: TicketId::from_u128(self.id()?),
            created_at: self.instant()?,
            version: self.number()?,
            reseats: self.optional_id()?.map(ReservationId),
            seats: seats_in(self.take()?),
            offered: self.take()?,
        })
    }

    pub(super) fn optional_number<T: TryFrom<i64>>(&mut self) -> Result<Option<T>, Error> {
        let number: Option<i64> = self.take()?;
        number.map(|n| n.try_into().map_err(|_| self.unreadable())).transpose()
    }

    fn order(&mut self) -> Result<Arc<[OrderLine]>, Error> {
        let Some(text) = self.take::<Option<&str>>()? else { return Ok(Arc::from([])) };
        serde_json::from_str(text).map_err(|_| self.unreadable())
    }
}

/// All reservations of an answer that has nothing else in it.
pub(super) fn reservations(rows: &[Row]) -> Result<Vec<Reservation>, Error> {
    rows.iter().map(|row| Columns::of(row, "a reservation").reservation()).collect()
}

/// A statement with the columns of a reservation, under the name `r`, in the place of the dots.
macro_rules! with_reservation {
    ($before:literal ... $after:literal) => {
        concat!(
            $before,
            " r.id, r.slot_id, r.person, r.name, r.status, r.party, r.table_no, r.payment, r.items, r.price, r.paid, \
             r.refunded, r.refund_due, r.expires_at, r.note, r.ticket, r.created_at, r.version, r.reseats, \
             r.seats, r.offered ",
            $after
        )
    };
}
pub(super) use with_reservation;
