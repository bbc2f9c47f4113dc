//! Reading a whole database for the auditor: one snapshot, slot by slot and person by person, and never writing.
//!
//! Rows are handed over as they are. What they mean is for the auditor to say, which shares no code with the rules.

use audit::{Auditor, Id, Opening, Options, PersonRows, Report, Slot, SlotRows, Token, Venue};
use booking::VenueId;

use crate::error::Error;
use crate::postgres;
use crate::sqlite;
use crate::store::Database;

/// Audits a database, live or restored: all of it, or the slots of one venue. What people have in their wallets belongs to no
/// venue, and is left out with one.
pub async fn audit(
    database: &Database,
    venue: Option<VenueId>,
    options: impl FnOnce(i64) -> Options,
) -> Result<Report, Error> {
    match database {
        Database::Sqlite(path) => run(&mut sqlite::audit::Snapshot::open(path)?, venue, options).await,
        Database::Postgres(server) => {
            run(&mut postgres::audit::Snapshot::open(server).await?, venue, options).await
        }
    }
}

/// A draw that was looked at.
#[derive(Debug)]
pub struct Drawn {
    /// The opening that it belongs to.
    pub opening: Opening,
    /// Everybody in it.
    pub tokens: Vec<Token>,
    /// What is wrong with it.
    pub report: Report,
}

/// Audits the draws of a venue: those of all its openings that have taken place.
pub async fn audit_draws(database: &Database, venue: VenueId) -> Result<Vec<Drawn>, Error> {
    match database {
        Database::Sqlite(path) => draws(&mut sqlite::audit::Snapshot::open(path)?, venue).await,
        Database::Postgres(server) => draws(&mut postgres::audit::Snapshot::open(server).await?, venue).await,
    }
}

async fn draws(snapshot: &mut impl Snapshot, venue: VenueId) -> Result<Vec<Drawn>, Error> {
    let mut draws = Vec::new();
    let openings = snapshot.openings(Some(venue.0.into())).await?;
    for opening in openings.into_iter().filter(|opening| opening.opened && opening.order == "draw") {
        let tokens = snapshot.tokens(opening.id).await?;
        let mut auditor = Auditor::new(Options::default());
        auditor.opening(&opening, &tokens);
        draws.push(Drawn { opening, tokens, report: auditor.finish() });
    }
    Ok(draws)
}

/// One instant of a database.
pub(crate) trait Snapshot {
    /// When it is, in milliseconds since 1970.
    async fn now(&mut self) -> Result<i64, Error>;
    /// All venues.
    async fn venues(&mut self) -> Result<Vec<Venue>, Error>;
    /// The next slot of which anything is stored, up to the last.
    async fn next_slot(&mut self, after: Slot, last: Slot) -> Result<Option<Slot>, Error>;
    /// All that is stored about a slot.
    async fn slot(&mut self, slot: Slot) -> Result<SlotRows, Error>;
    /// All openings, of one venue or of all.
    async fn openings(&mut self, venue: Option<i64>) -> Result<Vec<Opening>, Error>;
    /// The tokens of an opening, by arrival.
    async fn tokens(&mut self, opening: i64) -> Result<Vec<Token>, Error>;
    /// Some of the next people of whom anything is stored, in order.
    async fn people(&mut self, after: Option<Id>) -> Result<Vec<(Id, PersonRows)>, Error>;
}

/// How many people are read at a time.
pub(crate) const PEOPLE: i64 = 500;

/// The labels of seats in a column.
pub(crate) fn labels(column: Option<String>) -> Vec<String> {
    column.iter().flat_map(|text| text.split(',')).map(ToOwned::to_owned).collect()
}

async fn run(
    snapshot: &mut impl Snapshot,
    venue: Option<VenueId>,
    options: impl FnOnce(i64) -> Options,
) -> Result<Report, Error> {
    let mut auditor = Auditor::new(options(snapshot.now().await?));
    let venues = snapshot.venues().await?;
    let asked = venue.map(|id| i64::from(id.0));
    if asked.is_some_and(|id| venues.iter().all(|venue| venue.id != id)) {
        return Err(Error::Unfit("it has no venue of this number"));
    }
    for venue in venues.iter().filter(|venue| asked.is_none_or(|id| venue.id == id)) {
        auditor.venue(venue);
    }
    let (first, last) = asked.map_or((Slot(i64::MIN), Slot(i64::MAX)), Slot::range_of);
    let mut at = Slot(first.0.saturating_sub(1));
    while let Some(next) = snapshot.next_slot(at, last).await? {
        auditor.slot(next, &snapshot.slot(next).await?);
        at = next;
    }
    for opening in snapshot.openings(asked).await? {
        auditor.opening(&opening, &snapshot.tokens(opening.id).await?);
    }
    let mut after = None;
    while venue.is_none() {
        let people = snapshot.people(after).await?;
        let Some((last, _)) = people.last() else { break };
        after = Some(*last);
        for (person, rows) in &people {
            auditor.person(*person, rows);
        }
    }
    Ok(auditor.finish())
}

/// A whole database in memory, for tests that compare it with what clients wrote down.
#[cfg(feature = "controls")]
pub async fn snapshot(database: &Database) -> Result<audit::Database, Error> {
    match database {
        Database::Sqlite(path) => collect(&mut sqlite::audit::Snapshot::open(path)?).await,
        Database::Postgres(server) => collect(&mut postgres::audit::Snapshot::open(server).await?).await,
    }
}

#[cfg(feature = "controls")]
async fn collect(snapshot: &mut impl Snapshot) -> Result<audit::Database, Error> {
    let mut all = audit::Database { venues: snapshot.venues().await?, ..audit::Database::default() };
    let mut at = Slot(i64::MIN);
    while let Some(slot) = snapshot.next_slot(at, Slot(i64::MAX)).await? {
        let rows = snapshot.slot(slot).await?;
        all.slots.extend(rows.version.map(|version| (slot, version)));
        all.reservations.extend(rows.reservations.into_iter().filter(|row| row.slot == slot));
        all.batches.extend(rows.batches.into_iter().map(|batch| (slot, batch)));
        all.waiting.extend(rows.waiting.into_iter().map(|waiting| (slot, waiting)));
        all.seats.extend(rows.seats.into_iter().map(|(seat, holder)| (slot, seat, holder)));
        at = slot;
    }
    for opening in snapshot.openings(None).await? {
        let tokens = snapshot.tokens(opening.id).await?;
        all.openings.push((opening, tokens));
    }
    let mut after = None;
    loop {
        let people = snapshot.people(after).await?;
        let Some((last, _)) = people.last() else { return Ok(all) };
        after = Some(*last);
        for (person, rows) in people {
            all.wallets.extend(rows.balance.map(|balance| (person, balance)));
            all.entries.extend(rows.entries.into_iter().map(|entry| (person, entry)));
            all.payments.extend(rows.payments.into_iter().map(|payment| (person, payment)));
            all.keys.extend(rows.keys.into_iter().map(|(key, ticket)| (person, key, ticket)));
        }
    }
}
