//! How domain types are kept in columns, and read back.

use std::sync::Arc;

use booking::{Life, OrderLine, PersonId, Reservation, ReservationId, SlotId, TicketId, Won};
use jiff::Timestamp;
use rusqlite::Row;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, Type, ValueRef};

use crate::records::seats_in;

/// An id of 128 bits, as 16 bytes.
pub(super) struct Wide(pub u128);

impl ToSql for Wide {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::from(self.0.to_be_bytes().to_vec()))
    }
}

impl FromSql for Wide {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let bytes = value.as_blob()?.try_into().map_err(|_| FromSqlError::InvalidType)?;
        Ok(Self(u128::from_be_bytes(bytes)))
    }
}

/// An instant, in milliseconds.
pub(super) struct Instant(pub Timestamp);

impl FromSql for Instant {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let millis = value.as_i64()?;
        Timestamp::from_millisecond(millis).map(Self).map_err(|_| FromSqlError::OutOfRange(millis))
    }
}

/// A name out of a closed set.
pub(super) fn name<T: std::str::FromStr>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    let text = row.get_ref(column)?;
    let parsed = text.as_str().ok().and_then(|text| text.parse().ok());
    parsed.ok_or_else(|| rusqlite::Error::FromSqlConversionFailure(column, Type::Text, "unknown name".into()))
}

pub(super) const RESERVATION: &str = "id, slot_id, person, name, status, party, table_no, payment, items, price, paid, \
                                      refunded, refund_due, expires_at, note, ticket, created_at, version, reseats, \
                                      seats, offered";

/// A reservation from the columns of [`RESERVATION`].
pub(super) fn reservation(row: &Row<'_>) -> rusqlite::Result<Reservation> {
    let order: Option<String> = row.get(8)?;
    let order: Vec<OrderLine> = order
        .map(|text| serde_json::from_str(&text))
        .transpose()
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(8, Type::Text, Box::new(error)))?
        .unwrap_or_default();
    Ok(Reservation {
        id: ReservationId(row.get::<_, Wide>(0)?.0),
        slot: SlotId::from_i64(row.get(1)?),
        person: PersonId(row.get::<_, Wide>(2)?.0),
        name: row.get::<_, Arc<str>>(3)?,
        life: Life::stored(name(row, 4)?),
        party: row.get(5)?,
        table: row.get(6)?,
        payment: name(row, 7)?,
        order: order.into(),
        price: Won(row.get(9)?),
        paid: Won(row.get(10)?),
        refunded: Won(row.get(11)?),
        refund_due: Won(row.get(12)?),
        expires_at: row.get::<_, Instant>(13)?.0,
        note: row.get::<_, Option<Arc<str>>>(14)?,
        ticket: TicketId::from_u128(row.get::<_, Wide>(15)?.0),
        created_at: row.get::<_, Instant>(16)?.0,
        version: row.get(17)?,
        reseats: row.get::<_, Option<Wide>>(18)?.map(|id| ReservationId(id.0)),
        seats: seats_in(row.get::<_, Option<String>>(19)?.as_deref()),
        offered: row.get(20)?,
    })
}
