//! Venues: settings, menu and staff, under one version.

use booking::venue::{MenuItem, Settings};
use booking::{PersonId, Venue, VenueId, Won};
use rusqlite::{Connection, OptionalExtension, params};

use super::Sqlite;
use super::columns::Wide;
use crate::error::Error;

impl Sqlite {
    /// All venues.
    pub(crate) async fn venues(&self) -> Result<Vec<Venue>, Error> {
        self.readers
            .ask(|connection| {
                let mut select = connection.prepare_cached("SELECT id FROM venue ORDER BY id")?;
                let ids = select.query_map([], |row| row.get(0))?.collect::<Result<Vec<u32>, _>>()?;
                ids.into_iter().filter_map(|id| load(connection, VenueId(id)).transpose()).collect()
            })
            .await
    }

    /// One venue.
    pub(crate) async fn venue(&self, id: VenueId) -> Result<Option<Venue>, Error> {
        self.readers.ask(move |connection| load(connection, id)).await
    }

    /// Makes a venue and gives it its first member of staff.
    pub(crate) async fn add_venue(
        &self,
        settings: Settings,
        menu: Vec<MenuItem>,
        staff: Vec<PersonId>,
    ) -> Result<Venue, Error> {
        self.writer
            .run(move |connection| {
                let sql = "INSERT INTO venue (version, settings) VALUES (1, ?) RETURNING id";
                let id = VenueId(connection.query_row(sql, [written(&settings)?], |row| row.get(0))?);
                write_menu(connection, id, &menu)?;
                for person in &staff {
                    let sql = "INSERT OR IGNORE INTO staff (venue_id, person) VALUES (?, ?)";
                    connection.execute(sql, params![id.0, Wide(person.0)])?;
                }
                load(connection, id)?.ok_or(Error::Unreadable { what: "a venue just made" })
            })
            .await
    }

    /// Replaces a venue's settings, if it still is at this version; whether it was.
    pub(crate) async fn set_settings(
        &self,
        id: VenueId,
        version: u64,
        settings: Settings,
    ) -> Result<bool, Error> {
        self.writer
            .run(move |connection| {
                let sql =
                    "UPDATE venue SET version = version + 1, settings = ?3 WHERE id = ?1 AND version = ?2";
                Ok(connection.execute(sql, params![id.0, version, written(&settings)?])? == 1)
            })
            .await
    }

    /// Replaces a venue's menu.
    pub(crate) async fn set_menu(&self, id: VenueId, menu: Vec<MenuItem>) -> Result<(), Error> {
        self.writer
            .run(move |connection| {
                connection.execute("UPDATE venue SET version = version + 1 WHERE id = ?", [id.0])?;
                connection.execute("DELETE FROM menu_item WHERE venue_id = ?", [id.0])?;
                write_menu(connection, id, &menu)
            })
            .await
    }
}

fn load(connection: &Connection, id: VenueId) -> Result<Option<Venue>, Error> {
    let sql = "SELECT version, settings FROM venue WHERE id = ?";
    let row = |row: &rusqlite::Row<'_>| Ok((row.get::<_, u64>(0)?, row.get::<_, String>(1)?));
    let Some((version, settings)) = connection.prepare_cached(sql)?.query_row([id.0], row).optional()? else {
        return Ok(None);
    };
    let settings =
        serde_json::from_str(&settings).map_err(|_| Error::Unreadable { what: "the settings of a venue" })?;
    let mut select =
        connection.prepare_cached("SELECT id, name, price FROM menu_item WHERE venue_id = ? ORDER BY id")?;
    let items = select.query_map([id.0], |row| {
        Ok(MenuItem { id: row.get(0)?, name: row.get(1)?, price: Won(row.get(2)?) })
    })?;
    let menu = items.collect::<Result<_, _>>()?;
    let mut select =
        connection.prepare_cached("SELECT person FROM staff WHERE venue_id = ? ORDER BY person")?;
    let staff =
        select.query_map([id.0], |row| Ok(PersonId(row.get::<_, Wide>(0)?.0)))?.collect::<Result<_, _>>()?;
    Ok(Some(Venue { id, version, settings, menu, staff }))
}

fn write_menu(connection: &Connection, id: VenueId, menu: &[MenuItem]) -> Result<(), Error> {
    for item in menu {
        let sql = "INSERT INTO menu_item (venue_id, id, name, price) VALUES (?, ?, ?, ?)";
        connection.execute(sql, params![id.0, item.id, item.name, item.price.0])?;
    }
    Ok(())
}

fn written(settings: &Settings) -> Result<String, Error> {
    serde_json::to_string(settings).map_err(|_| Error::Unreadable { what: "the settings of a venue" })
}
