//! Venues: settings, menu and staff, under one version.
//!
//! Batches check the version of their venue and hold an advisory lock on it, shared, until they are stored; whoever changes
//! the venue holds the same lock alone. So once a change is answered, nothing is stored that was decided before it. The lock
//! costs no write, where a lock on the row would cost one a batch.

use booking::venue::{MenuItem, Settings};
use booking::{PersonId, Venue, VenueId};
use tokio_postgres::Row;

use super::Postgres;
use super::columns::{Columns, Wide, text, version};
use super::session::Step;
use crate::error::Error;

/// Waits for batches of this venue that are being stored, and keeps others from beginning.
pub(super) const ALONE: &str = "SELECT pg_advisory_xact_lock(1, $1)";
/// Keeps the venue from changing until the batch is stored.
pub(super) const TOGETHER: &str = "SELECT pg_advisory_xact_lock_shared(1, $1)";

/// What a venue is, in one row.
macro_rules! venues {
    ($of:literal) => {
        concat!(
            "SELECT id, version, settings, \
             ARRAY(SELECT m.id FROM menu_item m WHERE m.venue_id = venue.id ORDER BY m.id), \
             ARRAY(SELECT m.name FROM menu_item m WHERE m.venue_id = venue.id ORDER BY m.id), \
             ARRAY(SELECT m.price FROM menu_item m WHERE m.venue_id = venue.id ORDER BY m.id), \
             ARRAY(SELECT person FROM staff WHERE staff.venue_id = venue.id ORDER BY person) FROM venue ",
            $of
        )
    };
}

/// The venue's id as its column has it; one that does not fit belongs to no venue.
pub(super) fn number(id: VenueId) -> i32 {
    i32::try_from(id.0).unwrap_or(-1)
}

/// A menu as columns.
struct Menu<'a> {
    ids: Vec<i64>,
    names: Vec<std::borrow::Cow<'a, str>>,
    prices: Vec<i64>,
}

impl<'a> Menu<'a> {
    fn of(items: &'a [MenuItem]) -> Self {
        Self {
            ids: items.iter().map(|item| item.id.into()).collect(),
            names: items.iter().map(|item| text(&item.name)).collect(),
            prices: items.iter().map(|item| item.price.0).collect(),
        }
    }
}

impl Postgres {
    /// All venues.
    pub(crate) async fn venues(&self) -> Result<Vec<Venue>, Error> {
        self.ask(venues!("ORDER BY id"), &[]).await?.iter().map(venue).collect()
    }

    /// One venue.
    pub(crate) async fn venue(&self, id: VenueId) -> Result<Option<Venue>, Error> {
        self.ask(venues!("WHERE id = $1"), &[&number(id)]).await?.first().map(venue).transpose()
    }

    /// Makes a venue and gives it its first member of staff.
    pub(crate) async fn add_venue(
        &self,
        settings: Settings,
        menu: Vec<MenuItem>,
        staff: Vec<PersonId>,
    ) -> Result<Venue, Error> {
        let sql = "WITH made AS (INSERT INTO venue (version, settings) VALUES (1, $1) RETURNING id), \
                   menu AS (INSERT INTO menu_item (venue_id, id, name, price) SELECT made.id, item.* \
                   FROM made, unnest($2::bigint[], $3::text[], $4::bigint[]) AS item), \
                   staff AS (INSERT INTO staff (venue_id, person) SELECT DISTINCT made.id, person \
                   FROM made, unnest($5::uuid[]) AS person) \
                   SELECT id FROM made";
        let Menu { ids, names, prices } = Menu::of(&menu);
        let staff: Vec<_> = staff.iter().map(|person| Wide(person.0)).collect();
        let rows = self.ask(sql, &[&written(&settings)?, &ids, &names, &prices, &staff]).await?;
        let made = Error::Unreadable { what: "a venue just made" };
        let id = rows.first().and_then(|row| row.try_get::<_, i32>(0).ok()?.try_into().ok());
        match id {
            Some(id) => self.venue(VenueId(id)).await?.ok_or(made),
            None => Err(made),
        }
    }

    /// Replaces a venue's settings, if it still is at this version; whether it was.
    pub(crate) async fn set_settings(
        &self,
        id: VenueId,
        from: u64,
        settings: Settings,
    ) -> Result<bool, Error> {
        let sql = "UPDATE venue SET version = version + 1, settings = $3 WHERE id = $1 AND version = $2 RETURNING 1";
        let (id, from, settings) = (number(id), version(from), written(&settings)?);
        let steps = [Step::new(ALONE, &[&id]), Step::new(sql, &[&id, &from, &settings])];
        let rows = self.transact(&steps).await?;
        Ok(rows[1].len() == 1)
    }

    /// Replaces a venue's menu.
    pub(crate) async fn set_menu(&self, id: VenueId, menu: Vec<MenuItem>) -> Result<(), Error> {
        let (id, Menu { ids, names, prices }) = (number(id), Menu::of(&menu));
        let add = "INSERT INTO menu_item (venue_id, id, name, price) \
                   SELECT $1::integer, item.* FROM unnest($2::bigint[], $3::text[], $4::bigint[]) AS item";
        let steps = [
            Step::new(ALONE, &[&id]),
            Step::new("UPDATE venue SET version = version + 1 WHERE id = $1", &[&id]),
            Step::new("DELETE FROM menu_item WHERE venue_id = $1", &[&id]),
            Step::new(add, &[&id, &ids, &names, &prices]),
        ];
        self.transact(&steps).await?;
        Ok(())
    }
}

fn venue(row: &Row) -> Result<Venue, Error> {
    let mut columns = Columns::of(row, "a venue");
    let id = u32::try_from(columns.take::<i32>()?).map_err(|_| columns.unreadable())?;
    let version = columns.number()?;
    let settings = serde_json::from_str(columns.take()?)
        .map_err(|_| Error::Unreadable { what: "the settings of a venue" })?;
    let (ids, names): (Vec<u32>, Vec<&str>) = (columns.numbers()?, columns.take()?);
    let prices: Vec<i64> = columns.take()?;
    let items = ids.into_iter().zip(names).zip(prices);
    let menu =
        items.map(|((id, name), price)| MenuItem { id, name: name.into(), price: booking::Won(price) });
    let menu = menu.collect();
    let staff = columns.take::<Vec<Wide>>()?.into_iter().map(|person| PersonId(person.0)).collect();
    Ok(Venue { id: VenueId(id), version, settings, menu, staff })
}

fn written(settings: &Settings) -> Result<String, Error> {
    serde_json::to_string(settings).map_err(|_| Error::Unreadable { what: "the settings of a venue" })
}
