//! Openings and waiting rooms: a batch is stored if the opening is at the version from which it was decided.

use booking::room::{Ended, Opening, OpeningId, Room, Seed, Terms, Token};
use booking::{PersonId, VenueId};
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::columns::{Instant, Wide, name};
use super::{Sqlite, millis};
use crate::error::{CommitError, Error};
use crate::records::{NewOpening, RoomBatch};

const OPENING: &str = "id, version, enabled, size, idle_seconds, total_seconds, opens_at, by_order, seed, \
                       opened_at IS NOT NULL, arrivals, numbers, let_in";
const TOKEN: &str = "opening_id, arrival, person, number, state, let_in_at, seen_at";

impl Sqlite {
    /// The opening of a venue that counts, if it has one.
    pub(crate) async fn opening(&self, venue: VenueId) -> Result<Option<Opening>, Error> {
        self.readers.ask(move |connection| newest(connection, venue)).await
    }

    /// Begins a new opening in place of the one before.
    pub(crate) async fn add_opening(&self, venue: VenueId, opening: NewOpening) -> Result<Opening, Error> {
        self.writer
            .run(move |connection| {
                let before = newest(connection, venue)?;
                if let Some(before) = &before {
                    // Whatever was decided from it must not be stored any more.
                    let sql = "UPDATE opening SET version = version + 1 WHERE id = ?";
                    connection.prepare_cached(sql)?.execute([before.id.0])?;
                }
                insert(connection, venue, before.map_or(opening.terms, |before| before.terms), &opening)?;
                current(connection, venue)
            })
            .await
    }

    /// Sets how a venue's room is run; begins `otherwise` where there is no opening.
    pub(crate) async fn set_room(
        &self,
        venue: VenueId,
        terms: Terms,
        otherwise: NewOpening,
    ) -> Result<Opening, Error> {
        self.writer
            .run(move |connection| {
                let sql = "UPDATE opening SET version = version + 1, enabled = ?2, size = ?3, \
                           largest = max(largest, ?3), idle_seconds = ?4, total_seconds = ?5 \
                           WHERE id = (SELECT max(id) FROM opening WHERE venue_id = ?1)";
                let Terms { enabled, size, idle_seconds, total_seconds } = terms;
                let values = params![venue.0, enabled, size, idle_seconds, total_seconds];
                if connection.prepare_cached(sql)?.execute(values)? == 0 {
                    insert(connection, venue, terms, &otherwise)?;
                }
                current(connection, venue)
            })
            .await
    }

    /// The waiting room of a venue, with the latest tokens of these people.
    pub(crate) async fn room(&self, venue: VenueId, people: Vec<PersonId>) -> Result<Option<Room>, Error> {
        self.readers
            .ask(move |connection| {
                let Some(opening) = newest(connection, venue)? else { return Ok(None) };
                let sql = format!(
                    "SELECT {TOKEN} FROM queue_token WHERE opening_id = ? AND state = 'INSIDE' ORDER BY number"
                );
                let mut select = connection.prepare_cached(&sql)?;
                let inside = select.query_map([opening.id.0], token)?.collect::<Result<_, _>>()?;
                let sql = format!(
                    "SELECT {TOKEN} FROM queue_token WHERE opening_id = ? AND number > ? AND state = 'WAITING' \
                     ORDER BY number LIMIT ?"
                );
                let mut select = connection.prepare_cached(&sql)?;
                let values = params![opening.id.0, opening.let_in, opening.terms.size];
                let next = select.query_map(values, token)?.collect::<Result<_, _>>()?;
                let known = people.into_iter().filter_map(|person| {
                    Some(latest(connection, opening.id, person).transpose()?.map(|token| (person, token)))
                });
                let known = known.collect::<Result<_, Error>>()?;
                Ok(Some(Room { opening, inside, next, known }))
            })
            .await
    }

    /// Stores a batch if the opening is as it was when it was decided.
    pub(crate) async fn commit_room(&self, batch: RoomBatch) -> Result<(), CommitError> {
        #[cfg(feature = "controls")]
        let condition = if self.controls.version_check { "AND version = ?2" } else { "AND ?2 > 0" };
        #[cfg(not(feature = "controls"))]
        let condition = "AND version = ?2";
        self.writer
            .run(move |connection| {
                let RoomBatch { opening, changes, at } = &batch;
                let sql = format!(
                    "UPDATE opening SET version = version + 1, arrivals = ?3, numbers = ?4, let_in = ?5 \
                     WHERE id = ?1 {condition}"
                );
                let values =
                    params![opening.id.0, opening.version, opening.arrivals, opening.numbers, opening.let_in];
                if connection.prepare_cached(&sql)?.execute(values)? == 0 {
                    return Err(CommitError::Stale);
                }
                for ended in &changes.ended {
                    end(connection, ended, *at)?;
                }
                for token in &changes.let_in {
                    let_in(connection, token, *at)?;
                }
                for (token, lot) in &changes.new {
                    begin(connection, token, *lot, *at)?;
                }
                Ok(())
            })
            .await
    }

    /// Gives numbers to the next of those who came before an opening that is due; whether all have one now.
    pub(crate) async fn open_room(
        &self,
        opening: OpeningId,
        version: u64,
        at: Timestamp,
        limit: u32,
    ) -> Result<bool, CommitError> {
        self.writer
            .run(move |connection| {
                let sql = "UPDATE opening SET version = version + 1, begun_at = coalesce(begun_at, ?3), \
                           entrants = coalesce(entrants, arrivals) \
                           WHERE id = ?1 AND version = ?2 AND opened_at IS NULL RETURNING numbers";
                let values = params![opening.0, version, millis(at)];
                let numbers: Option<i64> =
                    connection.prepare_cached(sql)?.query_row(values, |row| row.get(0)).optional()?;
                let Some(numbers) = numbers else { return Err(CommitError::Stale) };
                // Without a draw nobody has a lot, and arrival decides.
                let sql = "UPDATE queue_token SET number = ?2 + next.n FROM (SELECT arrival, \
                           row_number() OVER (ORDER BY lot, arrival) AS n FROM queue_token WHERE opening_id = ?1 \
                           AND state = 'WAITING' AND number IS NULL ORDER BY lot, arrival LIMIT ?3) AS next \
                           WHERE queue_token.opening_id = ?1 AND queue_token.arrival = next.arrival";
                let given = connection.prepare_cached(sql)?.execute(params![opening.0, numbers, limit])?;
                let all = given < usize::try_from(limit).unwrap_or(usize::MAX);
                let sql = "UPDATE opening SET numbers = numbers + ?2, opened_at = ?3 WHERE id = ?1";
                let opened_at = all.then_some(millis(at));
                connection.prepare_cached(sql)?.execute(params![opening.0, given, opened_at])?;
                Ok(all)
            })
            .await
    }

    /// Who left a room before being let in: their numbers, above the highest that was.
    pub(crate) async fn left_waiting(&self, opening: OpeningId) -> Result<Vec<u64>, Error> {
        self.readers
            .ask(move |connection| {
                let sql = "SELECT number FROM queue_token WHERE opening_id = ?1 AND state = 'LEFT' \
                           AND number > (SELECT let_in FROM opening WHERE id = ?1) ORDER BY number";
                let mut select = connection.prepare_cached(sql)?;
                Ok(select.query_map([opening.0], |row| row.get(0))?.collect::<Result<_, _>>()?)
            })
            .await
    }

    /// A person's latest token.
    pub(crate) async fn token(&self, opening: OpeningId, person: PersonId) -> Result<Option<Token>, Error> {
        self.readers.ask(move |connection| latest(connection, opening, person)).await
    }

    /// Notes that somebody inside has been seen; whether they are inside.
    pub(crate) async fn seen(&self, token: Token, at: Timestamp) -> Result<bool, Error> {
        self.writer
            .run(move |connection| {
                let sql = "UPDATE queue_token SET seen_at = max(seen_at, ?3) \
                           WHERE opening_id = ?1 AND arrival = ?2 AND state = 'INSIDE'";
                let values = params![token.opening.0, token.arrival, millis(at)];
                Ok(connection.prepare_cached(sql)?.execute(values)? == 1)
            })
            .await
    }

    /// Venues in whose rooms something is to be done at `now`.
    pub(crate) async fn due_rooms(&self, now: Timestamp, limit: u32) -> Result<Vec<VenueId>, Error> {
        self.readers
            .ask(move |connection| {
                let sql = "SELECT venue_id FROM opening o \
                           WHERE id = (SELECT max(id) FROM opening WHERE venue_id = o.venue_id) AND enabled AND \
                           (opened_at IS NULL AND opens_at <= ?1 \
                           OR EXISTS (SELECT 1 FROM queue_token WHERE opening_id = o.id AND state = 'INSIDE' \
                               AND (seen_at + idle_seconds * 1000 <= ?1 OR let_in_at + total_seconds * 1000 <= ?1)) \
                           OR opened_at IS NOT NULL AND EXISTS (SELECT 1 FROM queue_token WHERE opening_id = o.id \
                               AND number > let_in AND state = 'WAITING') AND size > (SELECT count(*) \
                               FROM queue_token WHERE opening_id = o.id AND state = 'INSIDE')) LIMIT ?2";
                let mut select = connection.prepare_cached(sql)?;
                let rows = select.query_map(params![millis(now), limit], |row| row.get(0).map(VenueId))?;
                Ok(rows.collect::<Result<_, _>>()?)
            })
            .await
    }

    /// Who was drawn, by number, from after this one.
    pub(crate) async fn drawn(
        &self,
        opening: OpeningId,
        after: u64,
        limit: u32,
    ) -> Result<Vec<(u64, PersonId)>, Error> {
        self.readers
            .ask(move |connection| {
                let sql = "SELECT number, person FROM queue_token WHERE opening_id = ? AND number > ? \
                           AND lot IS NOT NULL ORDER BY number LIMIT ?";
                let mut select = connection.prepare_cached(sql)?;
                let rows = select.query_map(params![opening.0, after, limit], |row| {
                    Ok((row.get(0)?, PersonId(row.get::<_, Wide>(1)?.0)))
                })?;
                Ok(rows.collect::<Result<_, _>>()?)
            })
            .await
    }
}

/// Who has paid is done in the waiting room of the venue, in the same transaction.
pub(super) fn finish(
    connection: &Connection,
    venue: VenueId,
    payers: &[PersonId],
    at: i64,
) -> Result<(), CommitError> {
    let sql = "UPDATE queue_token SET state = 'DONE', ended_at = ?3 WHERE person = ?2 AND state = 'INSIDE' \
               AND opening_id IN (SELECT id FROM opening WHERE venue_id = ?1)";
    for payer in payers {
        connection.prepare_cached(sql)?.execute(params![venue.0, Wide(payer.0), at])?;
    }
    Ok(())
}

fn insert(connection: &Connection, venue: VenueId, terms: Terms, opening: &NewOpening) -> Result<(), Error> {
    let sql = "INSERT INTO opening (venue_id, version, enabled, size, largest, idle_seconds, total_seconds, opens_at, \
               by_order, seed, seed_hash) VALUES (?1, 1, ?2, ?3, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
    let Terms { enabled, size, idle_seconds, total_seconds } = terms;
    let NewOpening { opens_at, order, seed, .. } = opening;
    let hash = seed.hash();
    let (opens_at, order) = (millis(*opens_at), order.as_str());
    let values = params![venue.0, enabled, size, idle_seconds, total_seconds, opens_at, order, seed.0, hash];
    connection.prepare_cached(sql)?.execute(values)?;
    Ok(())
}

fn newest(connection: &Connection, venue: VenueId) -> Result<Option<Opening>, Error> {
    let sql = format!("SELECT {OPENING} FROM opening WHERE venue_id = ? ORDER BY id DESC LIMIT 1");
    Ok(connection.prepare_cached(&sql)?.query_row([venue.0], opening).optional()?)
}

fn current(connection: &Connection, venue: VenueId) -> Result<Opening, Error> {
    newest(connection, venue)?.ok_or(Error::Unreadable { what: "an opening just made" })
}

fn latest(connection: &Connection, opening: OpeningId, person: PersonId) -> Result<Option<Token>, Error> {
    let sql = format!(
        "SELECT {TOKEN} FROM queue_token WHERE opening_id = ? AND person = ? ORDER BY arrival DESC LIMIT 1"
    );
    let mut select = connection.prepare_cached(&sql)?;
    Ok(select.query_row(params![opening.0, Wide(person.0)], token).optional()?)
}

/// A place ends if it is still as it was: its owner may have paid, or been seen, since.
fn end(connection: &Connection, ended: &Ended, at: Timestamp) -> Result<(), CommitError> {
    let was = &ended.was;
    let sql = "UPDATE queue_token SET state = ?3, ended_at = ?4 \
               WHERE opening_id = ?1 AND arrival = ?2 AND state = ?5 AND seen_at IS ?6";
    let (before, seen) = (was.state.as_str(), was.seen_at.map(millis));
    let values = params![was.opening.0, was.arrival, ended.state.as_str(), millis(at), before, seen];
    once(connection.prepare_cached(sql)?.execute(values)?)
}

fn let_in(connection: &Connection, token: &Token, at: Timestamp) -> Result<(), CommitError> {
    let sql = "UPDATE queue_token SET state = 'INSIDE', let_in_at = ?3, seen_at = ?3 \
               WHERE opening_id = ?1 AND arrival = ?2 AND state = 'WAITING'";
    once(connection.prepare_cached(sql)?.execute(params![token.opening.0, token.arrival, millis(at)])?)
}

fn once(rows: usize) -> Result<(), CommitError> {
    if rows == 1 { Ok(()) } else { Err(CommitError::Stale) }
}

fn begin(
    connection: &Connection,
    token: &Token,
    lot: Option<[u8; 32]>,
    at: Timestamp,
) -> Result<(), CommitError> {
    let sql = "INSERT INTO queue_token (opening_id, arrival, person, number, lot, state, asked_at, let_in_at, seen_at, \
               ended_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
    let ended = (!token.state.is_live()).then_some(millis(at));
    let values = params![
        token.opening.0,
        token.arrival,
        Wide(token.person.0),
        token.number,
        lot,
        token.state.as_str(),
        millis(at),
        token.let_in_at.map(millis),
        token.seen_at.map(millis),
        ended,
    ];
    connection.prepare_cached(sql)?.execute(values)?;
    Ok(())
}

fn opening(row: &Row<'_>) -> rusqlite::Result<Opening> {
    let terms = Terms {
        enabled: row.get(2)?,
        size: row.get(3)?,
        idle_seconds: row.get(4)?,
        total_seconds: row.get(5)?,
    };
    Ok(Opening {
        id: OpeningId(row.get(0)?),
        version: row.get(1)?,
        terms,
        opens_at: row.get::<_, Instant>(6)?.0,
        order: name(row, 7)?,
        seed: Seed(row.get(8)?),
        opened: row.get(9)?,
        arrivals: row.get(10)?,
        numbers: row.get(11)?,
        let_in: row.get(12)?,
    })
}

fn token(row: &Row<'_>) -> rusqlite::Result<Token> {
    Ok(Token {
        opening: OpeningId(row.get(0)?),
        arrival: row.get(1)?,
        person: PersonId(row.get::<_, Wide>(2)?.0),
        number: row.get(3)?,
        state: name(row, 4)?,
        let_in_at: row.get::<_, Option<Instant>>(5)?.map(|at| at.0),
        seen_at: row.get::<_, Option<Instant>>(6)?.map(|at| at.0),
    })
}
