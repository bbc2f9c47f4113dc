//! Openings and waiting rooms: a batch is stored if the opening is at the version from which it was decided, in one exchange.
//!
//! Numbers come from here and nowhere else, so whatever becomes of Redis or of a process, they have no gaps.

use booking::room::{Ended, Opening, OpeningId, Room, Seed, Terms, Token};
use booking::{PersonId, VenueId};
use jiff::Timestamp;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::Postgres;
use super::columns::{Columns, Wide, version};
use super::session::Step;
use super::venues::{ALONE, number};
use crate::error::{CommitError, Error, Failed, reason};
use crate::records::{NewOpening, RoomBatch};

macro_rules! openings {
    ($before:literal ... $after:literal) => {
        concat!(
            $before,
            " o.id, o.version, o.enabled, o.size, o.idle_seconds, o.total_seconds, o.opens_at, o.by_order, o.seed, \
             o.opened_at IS NOT NULL, o.arrivals, o.numbers, o.let_in ",
            $after
        )
    };
}

const NEWEST: &str = openings!("SELECT"..."FROM opening o WHERE venue_id = $1 ORDER BY id DESC LIMIT 1");
/// The opening with everybody inside (0), the next (1) and the latest tokens of some people (2), as of one instant.
const ROOM: &str = openings!(
    "SELECT"
        ...", t.* FROM opening o LEFT JOIN LATERAL (\
     (SELECT 0, opening_id, arrival, person, number, state, let_in_at, seen_at FROM queue_token \
        WHERE opening_id = o.id AND state = 'INSIDE' ORDER BY number) UNION ALL \
     (SELECT 1, opening_id, arrival, person, number, state, let_in_at, seen_at FROM queue_token \
        WHERE opening_id = o.id AND number > o.let_in AND state = 'WAITING' ORDER BY number LIMIT o.size) UNION ALL \
     (SELECT 2, latest.* FROM unnest($2::uuid[]) AS who CROSS JOIN LATERAL (\
        SELECT opening_id, arrival, person, number, state, let_in_at, seen_at FROM queue_token \
        WHERE opening_id = o.id AND person = who ORDER BY arrival DESC LIMIT 1) AS latest)) AS t ON true \
     WHERE o.id = (SELECT max(id) FROM opening WHERE venue_id = $1)"
);
/// The terms of the opening before stay, if there was one.
const ADD: &str = "INSERT INTO opening (venue_id, version, enabled, size, largest, idle_seconds, total_seconds, opens_at, \
     by_order, seed, seed_hash) SELECT $1::integer, 1, coalesce(o.enabled, $2), coalesce(o.size, $3), coalesce(o.size, $3), \
     coalesce(o.idle_seconds, $4), coalesce(o.total_seconds, $5), $6::bigint, $7::text, $8::bytea, $9::bytea \
     FROM (SELECT) AS one LEFT JOIN (SELECT * FROM opening WHERE venue_id = $1 ORDER BY id DESC LIMIT 1) AS o ON true";
const OUTDATE: &str =
    "UPDATE opening SET version = version + 1 WHERE id = (SELECT max(id) FROM opening WHERE venue_id = $1)";
const SET_TERMS: &str = "UPDATE opening SET version = version + 1, enabled = $2, size = $3, \
     largest = greatest(largest, $3), idle_seconds = $4, total_seconds = $5 \
     WHERE id = (SELECT max(id) FROM opening WHERE venue_id = $1)";
/// The condition: moves the version on, from exactly the one that the batch was decided from.
const ADVANCE: &str = "WITH moved AS (UPDATE opening SET version = version + 1, arrivals = $3, numbers = $4, let_in = $5 \
     WHERE id = $1 AND version = $2 RETURNING 1) SELECT CASE WHEN EXISTS (SELECT FROM moved) THEN 0 ELSE refuse($6) END";
/// What the condition protects from: moves it on from wherever it is.
#[cfg(feature = "controls")]
const ADVANCE_REGARDLESS: &str = "WITH moved AS (UPDATE opening SET version = version + 1, arrivals = $3, numbers = $4, \
     let_in = $5 WHERE id = $1 AND $2::bigint > 0 RETURNING 1) \
     SELECT CASE WHEN EXISTS (SELECT FROM moved) THEN 0 ELSE refuse($6) END";
/// A place ends if it is still as it was: its owner may have paid, or been seen, since.
const END: &str = "WITH ended AS (UPDATE queue_token t SET state = e.state, ended_at = $6 \
     FROM unnest($2::bigint[], $3::text[], $4::text[], $5::bigint[]) AS e (arrival, was, state, seen_at) \
     WHERE t.opening_id = $1 AND t.arrival = e.arrival AND t.state = e.was AND t.seen_at IS NOT DISTINCT FROM e.seen_at \
     RETURNING 1) SELECT CASE WHEN (SELECT count(*) FROM ended) = cardinality($2) THEN 0 ELSE refuse($7) END";
const LET_IN: &str = "WITH inside AS (UPDATE queue_token SET state = 'INSIDE', let_in_at = $3, seen_at = $3 \
     WHERE opening_id = $1 AND arrival = ANY ($2::bigint[]) AND state = 'WAITING' RETURNING 1) \
     SELECT CASE WHEN (SELECT count(*) FROM inside) = cardinality($2) THEN 0 ELSE refuse($4) END";
const NEW: &str = "INSERT INTO queue_token (opening_id, arrival, person, number, lot, state, asked_at, let_in_at, seen_at, \
     ended_at) SELECT $1::bigint, arrival, person, number, lot, state, $8::bigint, let_in_at, let_in_at, ended_at \
     FROM unnest($2::bigint[], $3::uuid[], $4::bigint[], $5::bytea[], $6::text[], $7::bigint[], $9::bigint[]) \
     AS t (arrival, person, number, lot, state, let_in_at, ended_at)";
/// Since this nobody joins those who came before.
const BEGIN: &str = "WITH begun AS (UPDATE opening SET version = version + 1, begun_at = coalesce(begun_at, $3), \
     entrants = coalesce(entrants, arrivals) WHERE id = $1 AND version = $2 AND opened_at IS NULL RETURNING 1) \
     SELECT CASE WHEN EXISTS (SELECT FROM begun) THEN 0 ELSE refuse($4) END";
/// Without a draw nobody has a lot, and arrival decides.
const GIVE_NUMBERS: &str = "WITH next AS (SELECT arrival, row_number() OVER (ORDER BY lot, arrival) AS n \
     FROM (SELECT arrival, lot FROM queue_token WHERE opening_id = $1 AND state = 'WAITING' AND number IS NULL \
     ORDER BY lot, arrival LIMIT $2) AS first), \
     given AS (UPDATE queue_token t SET number = o.numbers + next.n FROM next, opening o \
     WHERE o.id = $1 AND t.opening_id = $1 AND t.arrival = next.arrival RETURNING 1) \
     UPDATE opening SET numbers = numbers + (SELECT count(*) FROM given), \
     opened_at = CASE WHEN (SELECT count(*) FROM given) < $2 THEN $3::bigint END \
     WHERE id = $1 RETURNING opened_at IS NOT NULL";
/// Who has paid is done in the waiting room of the venue.
pub(super) const FINISH: &str = "UPDATE queue_token SET state = 'DONE', ended_at = $3 WHERE person = ANY ($2::uuid[]) \
     AND state = 'INSIDE' AND opening_id IN (SELECT id FROM opening WHERE venue_id = $1)";

impl Postgres {
    /// The opening of a venue that counts, if it has one.
    pub(crate) async fn opening(&self, venue: VenueId) -> Result<Option<Opening>, Error> {
        let rows = self.ask(NEWEST, &[&number(venue)]).await?;
        rows.first().map(|row| opening(&mut Columns::of(row, "an opening"))).transpose()
    }

    /// Begins a new opening in place of the one before.
    pub(crate) async fn add_opening(&self, venue: VenueId, new: NewOpening) -> Result<Opening, Error> {
        // Whatever was decided from the one before must not be stored any more.
        self.set(venue, new.terms, new, false).await
    }

    /// Sets how a venue's room is run; begins `otherwise` where there is no opening.
    pub(crate) async fn set_room(
        &self,
        venue: VenueId,
        terms: Terms,
        otherwise: NewOpening,
    ) -> Result<Opening, Error> {
        self.set(venue, terms, otherwise, true).await
    }

    async fn set(&self, venue: VenueId, terms: Terms, new: NewOpening, keep: bool) -> Result<Opening, Error> {
        let (venue, hash) = (number(venue), new.seed.hash());
        let [size, idle, total] = [terms.size, terms.idle_seconds, terms.total_seconds].map(i64::from);
        let (opens_at, order) = (new.opens_at.as_millisecond(), new.order.as_str());
        let (seed, hash) = (new.seed.0.as_slice(), hash.as_slice());
        let values: [&(dyn ToSql + Sync); 9] =
            [&venue, &terms.enabled, &size, &idle, &total, &opens_at, &order, &seed, &hash];
        let mut steps = vec![Step::new(ALONE, &[&venue])];
        if keep {
            steps.push(Step::new(SET_TERMS, &values[..5]));
            let unless = "INSERT INTO opening (venue_id, version, enabled, size, largest, idle_seconds, total_seconds, \
                          opens_at, by_order, seed, seed_hash) SELECT $1::integer, 1, $2::boolean, $3::bigint, $3, \
                          $4::bigint, $5::bigint, $6::bigint, $7::text, $8::bytea, $9::bytea \
                          WHERE NOT EXISTS (SELECT FROM opening WHERE venue_id = $1)";
            steps.push(Step::new(unless, &values));
        } else {
            steps.push(Step::new(OUTDATE, &[&venue]));
            steps.push(Step::new(ADD, &values));
        }
        steps.push(Step::new(NEWEST, &[&venue]));
        let rows = self.transact(&steps).await?;
        let made = rows.last().and_then(|rows| rows.first());
        let made = made.ok_or(Error::Unreadable { what: "an opening just made" })?;
        opening(&mut Columns::of(made, "an opening"))
    }

    /// The waiting room of a venue, with the latest tokens of these people.
    pub(crate) async fn room(&self, venue: VenueId, people: Vec<PersonId>) -> Result<Option<Room>, Error> {
        let people: Vec<_> = people.iter().map(|person| Wide(person.0)).collect();
        let rows = self.ask(ROOM, &[&number(venue), &people]).await?;
        let mut room: Option<Room> = None;
        for row in &rows {
            let mut columns = Columns::of(row, "a waiting room");
            let opening = opening(&mut columns)?;
            let room = room.get_or_insert_with(|| Room {
                opening,
                inside: vec![],
                next: vec![],
                known: Default::default(),
            });
            match columns.take::<Option<i32>>()? {
                None => {}
                Some(0) => room.inside.push(token(&mut columns)?),
                Some(1) => room.next.push(token(&mut columns)?),
                Some(_) => {
                    let token = token(&mut columns)?;
                    room.known.insert(token.person, token);
                }
            }
        }
        Ok(room)
    }

    /// Stores a batch if the opening is as it was when it was decided.
    pub(crate) async fn commit_room(&self, batch: RoomBatch) -> Result<(), CommitError> {
        let RoomBatch { opening, changes, at } = batch;
        let (id, from, at) = (opening.id.0, version(opening.version), at.as_millisecond());
        let [arrivals, numbers, frontier] = [opening.arrivals, opening.numbers, opening.let_in].map(version);
        let condition: [&(dyn ToSql + Sync); 6] =
            [&id, &from, &arrivals, &numbers, &frontier, &reason::STALE];
        #[cfg(feature = "controls")]
        let advance = if self.controls.version_check { ADVANCE } else { ADVANCE_REGARDLESS };
        #[cfg(not(feature = "controls"))]
        let advance = ADVANCE;
        let mut steps = vec![Step::new(advance, &condition)];
        let ended = EndedTokens::of(&changes.ended);
        if !ended.arrival.is_empty() {
            let EndedTokens { arrival, was, state, seen_at } = &ended;
            steps.push(Step::new(END, &[&id, arrival, was, state, seen_at, &at, &reason::STALE]));
        }
        let let_in: Vec<_> = changes.let_in.iter().map(|token| version(token.arrival)).collect();
        if !let_in.is_empty() {
            steps.push(Step::new(LET_IN, &[&id, &let_in, &at, &reason::STALE]));
        }
        let new = NewTokens::of(&changes.new, at);
        if !new.arrival.is_empty() {
            let NewTokens { arrival, person, number, lot, state, let_in_at, ended_at } = &new;
            let values: [&(dyn ToSql + Sync); 9] =
                [&id, arrival, person, number, lot, state, let_in_at, &at, ended_at];
            steps.push(Step::new(NEW, &values));
        }
        self.transact(&steps).await.map(drop).map_err(meaning)
    }

    /// Gives numbers to the next of those who came before an opening that is due; whether all have one now.
    pub(crate) async fn open_room(
        &self,
        opening: OpeningId,
        from: u64,
        at: Timestamp,
        limit: u32,
    ) -> Result<bool, CommitError> {
        let (from, at, limit) = (version(from), at.as_millisecond(), i64::from(limit));
        let steps = [
            Step::new(BEGIN, &[&opening.0, &from, &at, &reason::STALE]),
            Step::new(GIVE_NUMBERS, &[&opening.0, &limit, &at]),
        ];
        let rows = self.transact(&steps).await.map_err(meaning)?;
        let all = rows[1].first().and_then(|row| row.try_get(0).ok());
        Ok(all.ok_or(Error::Unreadable { what: "an opening" })?)
    }

    /// Who left a room before being let in: their numbers, above the highest that was.
    pub(crate) async fn left_waiting(&self, opening: OpeningId) -> Result<Vec<u64>, Error> {
        let sql = "SELECT ARRAY(SELECT number FROM queue_token WHERE opening_id = $1 AND state = 'LEFT' \
                   AND number > (SELECT let_in FROM opening WHERE id = $1) ORDER BY number)";
        let rows = self.ask(sql, &[&opening.0]).await?;
        rows.first().map_or(Ok(vec![]), |row| Columns::of(row, "a waiting room").numbers())
    }

    /// A person's latest token.
    pub(crate) async fn token(&self, opening: OpeningId, person: PersonId) -> Result<Option<Token>, Error> {
        let sql = "SELECT opening_id, arrival, person, number, state, let_in_at, seen_at FROM queue_token \
                   WHERE opening_id = $1 AND person = $2 ORDER BY arrival DESC LIMIT 1";
        let rows = self.ask(sql, &[&opening.0, &Wide(person.0)]).await?;
        rows.first().map(|row| token(&mut Columns::of(row, "a token"))).transpose()
    }

    /// Notes that somebody inside has been seen; whether they are inside.
    pub(crate) async fn seen(&self, token: Token, at: Timestamp) -> Result<bool, Error> {
        let sql = "UPDATE queue_token SET seen_at = greatest(seen_at, $3) \
                   WHERE opening_id = $1 AND arrival = $2 AND state = 'INSIDE' RETURNING 1";
        let values: [&(dyn ToSql + Sync); 3] =
            [&token.opening.0, &version(token.arrival), &at.as_millisecond()];
        Ok(self.ask(sql, &values).await?.len() == 1)
    }

    /// Venues in whose rooms something is to be done at `now`.
    pub(crate) async fn due_rooms(&self, now: Timestamp, limit: u32) -> Result<Vec<VenueId>, Error> {
        let sql = "SELECT venue_id FROM opening o \
                   WHERE id = (SELECT max(id) FROM opening WHERE venue_id = o.venue_id) AND enabled AND \
                   (opened_at IS NULL AND opens_at <= $1 \
                   OR EXISTS (SELECT FROM queue_token WHERE opening_id = o.id AND state = 'INSIDE' \
                       AND (seen_at + idle_seconds * 1000 <= $1 OR let_in_at + total_seconds * 1000 <= $1)) \
                   OR opened_at IS NOT NULL AND EXISTS (SELECT FROM queue_token WHERE opening_id = o.id \
                       AND number > let_in AND state = 'WAITING') AND size > (SELECT count(*) FROM queue_token \
                       WHERE opening_id = o.id AND state = 'INSIDE')) LIMIT $2";
        let rows = self.ask(sql, &[&now.as_millisecond(), &i64::from(limit)]).await?;
        let venue = |row: &Row| {
            let mut columns = Columns::of(row, "an opening");
            let id: i32 = columns.take()?;
            id.try_into().map(VenueId).map_err(|_| columns.unreadable())
        };
        rows.iter().map(venue).collect()
    }

    /// Who was drawn, by number, from after this one.
    pub(crate) async fn drawn(
        &self,
        opening: OpeningId,
        after: u64,
        limit: u32,
    ) -> Result<Vec<(u64, PersonId)>, Error> {
        let sql = "SELECT number, person FROM queue_token WHERE opening_id = $1 AND number > $2 \
                   AND lot IS NOT NULL ORDER BY number LIMIT $3";
        let rows = self.ask(sql, &[&opening.0, &version(after), &i64::from(limit)]).await?;
        let drawn = |row: &Row| {
            let mut columns = Columns::of(row, "a token");
            Ok((columns.number()?, PersonId(columns.id()?)))
        };
        rows.iter().map(drawn).collect()
    }
}

fn meaning(failed: Failed) -> CommitError {
    match failed.refused() {
        Some((reason::STALE, _)) => CommitError::Stale,
        _ => failed.into(),
    }
}

/// Places that end, column by column.
struct EndedTokens {
    arrival: Vec<i64>,
    was: Vec<&'static str>,
    state: Vec<&'static str>,
    seen_at: Vec<Option<i64>>,
}

impl EndedTokens {
    fn of(ended: &[Ended]) -> Self {
        Self {
            arrival: ended.iter().map(|ended| version(ended.was.arrival)).collect(),
            was: ended.iter().map(|ended| ended.was.state.as_str()).collect(),
            state: ended.iter().map(|ended| ended.state.as_str()).collect(),
            seen_at: ended.iter().map(|ended| ended.was.seen_at.map(Timestamp::as_millisecond)).collect(),
        }
    }
}

/// New places, column by column.
struct NewTokens {
    arrival: Vec<i64>,
    person: Vec<Wide>,
    number: Vec<Option<i64>>,
    lot: Vec<Option<Vec<u8>>>,
    state: Vec<&'static str>,
    let_in_at: Vec<Option<i64>>,
    ended_at: Vec<Option<i64>>,
}

impl NewTokens {
    fn of(new: &[(Token, Option<[u8; 32]>)], at: i64) -> Self {
        let tokens = || new.iter().map(|(token, _)| token);
        Self {
            arrival: tokens().map(|token| version(token.arrival)).collect(),
            person: tokens().map(|token| Wide(token.person.0)).collect(),
            number: tokens().map(|token| token.number.map(version)).collect(),
            lot: new.iter().map(|(_, lot)| lot.map(Vec::from)).collect(),
            state: tokens().map(|token| token.state.as_str()).collect(),
            let_in_at: tokens().map(|token| token.let_in_at.map(Timestamp::as_millisecond)).collect(),
            ended_at: tokens().map(|token| (!token.state.is_live()).then_some(at)).collect(),
        }
    }
}

fn opening(columns: &mut Columns<'_>) -> Result<Opening, Error> {
    Ok(Opening {
        id: OpeningId(columns.take()?),
        version: columns.number()?,
        terms: Terms {
            enabled: columns.take()?,
            size: columns.number()?,
            idle_seconds: columns.number()?,
            total_seconds: columns.number()?,
        },
        opens_at: columns.instant()?,
        order: columns.name()?,
        seed: Seed(columns.take::<&[u8]>()?.try_into().map_err(|_| columns.unreadable())?),
        opened: columns.take()?,
        arrivals: columns.number()?,
        numbers: columns.number()?,
        let_in: columns.number()?,
    })
}

fn token(columns: &mut Columns<'_>) -> Result<Token, Error> {
    Ok(Token {
        opening: OpeningId(columns.take()?),
        arrival: columns.number()?,
        person: PersonId(columns.id()?),
        number: columns.optional_number()?,
        state: columns.name()?,
        let_in_at: columns.optional_instant()?,
        seen_at: columns.optional_instant()?,
    })
}
