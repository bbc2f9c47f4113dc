//! Openings and waiting rooms in memory: the same conditions as the tables of the real databases.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use booking::room::{Opening, OpeningId, Room, State, Terms, Token};
use booking::{PersonId, VenueId, flaws};
use jiff::Timestamp;
use store::{CommitError, NewOpening, RoomBatch};

/// Both tables.
#[derive(Debug, Clone, Default)]
pub struct Rooms {
    openings: Vec<(VenueId, Opening)>,
    /// What openings have beside what the product reads: the most that were to be inside, and who had come when it opened.
    beside: BTreeMap<OpeningId, (u32, Option<u64>)>,
    tokens: BTreeMap<(OpeningId, u64), Place>,
}

/// Places by person and arrival.
pub type Places = BTreeSet<(u128, u64)>;

/// A row of the tokens' table.
#[derive(Debug, Clone)]
struct Place {
    token: Token,
    lot: Option<[u8; 32]>,
    ended_at: Option<i64>,
}

impl Rooms {
    /// The opening of a venue that counts.
    pub fn newest(&self, venue: VenueId) -> Option<&Opening> {
        self.openings.iter().rev().find(|(whose, _)| *whose == venue).map(|(_, opening)| opening)
    }

    fn newest_mut(&mut self, venue: VenueId) -> Option<&mut Opening> {
        self.openings.iter_mut().rev().find(|(whose, _)| *whose == venue).map(|(_, opening)| opening)
    }

    /// Begins an opening in place of the one before.
    pub fn add(&mut self, venue: VenueId, new: NewOpening) -> Opening {
        let mut terms = new.terms;
        if let Some(before) = self.newest_mut(venue) {
            before.version += 1;
            terms = before.terms;
        }
        self.insert(venue, NewOpening { terms, ..new })
    }

    fn insert(&mut self, venue: VenueId, new: NewOpening) -> Opening {
        let opening = Opening {
            id: OpeningId(i64::try_from(self.openings.len()).unwrap_or(0) + 1),
            version: 1,
            terms: new.terms,
            opens_at: new.opens_at,
            order: new.order,
            seed: new.seed,
            opened: false,
            arrivals: 0,
            numbers: 0,
            let_in: 0,
        };
        self.beside.insert(opening.id, (opening.terms.size, None));
        self.openings.push((venue, opening.clone()));
        opening
    }

    /// Sets how the room is run.
    pub fn set_terms(&mut self, venue: VenueId, terms: Terms, otherwise: NewOpening) -> Opening {
        match self.newest_mut(venue) {
            Some(opening) => {
                (opening.version, opening.terms) = (opening.version + 1, terms);
                let opening = opening.clone();
                let (largest, _) = self.beside.entry(opening.id).or_default();
                *largest = terms.size.max(*largest);
                opening
            }
            None => self.insert(venue, NewOpening { terms, ..otherwise }),
        }
    }

    /// All tokens of an opening, by arrival.
    pub fn tokens(&self, opening: OpeningId) -> impl Iterator<Item = &Token> {
        self.tokens.range((opening, 0)..=(opening, u64::MAX)).map(|(_, place)| &place.token)
    }

    /// A person's latest token.
    pub fn latest(&self, opening: OpeningId, person: PersonId) -> Option<Token> {
        self.tokens(opening).filter(|token| token.person == person).last().copied()
    }

    /// What a batch is decided from.
    pub fn room(&self, venue: VenueId, people: &[PersonId]) -> Option<Room> {
        let opening = self.newest(venue)?.clone();
        let of = |state| self.tokens(opening.id).filter(move |token| token.state == state);
        let let_in = Some(opening.let_in);
        let mut next: Vec<_> = of(State::Waiting).filter(|token| token.number > let_in).copied().collect();
        next.sort_by_key(|token| token.number);
        next.truncate(usize::try_from(opening.terms.size).unwrap_or(usize::MAX));
        let inside = of(State::Inside).copied().collect();
        let known = people.iter().filter_map(|person| Some((*person, self.latest(opening.id, *person)?)));
        let known: HashMap<_, _> = known.collect();
        Some(Room { opening, inside, next, known })
    }

    /// Stores a batch, or nothing of it.
    pub fn commit(&mut self, batch: &RoomBatch) -> Result<(), CommitError> {
        let id = batch.opening.id;
        let position = self.openings.iter().position(|(_, opening)| opening.id == id);
        let Some(position) = position else { return Err(CommitError::Stale) };
        let version = self.openings[position].1.version;
        let unchecked = flaws::has("no-version-check") || flaws::has("room-read-then-write");
        if version != batch.opening.version && !unchecked {
            return Err(CommitError::Stale);
        }
        if !flaws::has("room-read-then-write") && !self.fits(batch) {
            return Err(CommitError::Stale);
        }
        let at = batch.at.as_millisecond();
        for ended in &batch.changes.ended {
            if let Some(place) = self.tokens.get_mut(&(id, ended.was.arrival)) {
                (place.token.state, place.ended_at) = (ended.state, Some(at));
            }
        }
        for token in &batch.changes.let_in {
            if let Some(place) = self.tokens.get_mut(&(id, token.arrival)) {
                place.token = *token;
            }
        }
        for &(token, lot) in &batch.changes.new {
            let ended_at = (!token.state.is_live()).then_some(at);
            self.tokens.insert((id, token.arrival), Place { token, lot, ended_at });
        }
        let terms = self.openings[position].1.terms;
        self.openings[position].1 = Opening { version: version + 1, terms, ..batch.opening.clone() };
        Ok(())
    }

    /// The conditions of the statements, and the unique indexes.
    fn fits(&self, batch: &RoomBatch) -> bool {
        let id = batch.opening.id;
        let stored = |arrival| self.tokens.get(&(id, arrival)).map(|place| &place.token);
        let changes = &batch.changes;
        let ends = changes.ended.iter().all(|ended| {
            stored(ended.was.arrival)
                .is_some_and(|t| (t.state, t.seen_at) == (ended.was.state, ended.was.seen_at))
        });
        let waits =
            changes.let_in.iter().all(|t| stored(t.arrival).is_some_and(|t| t.state == State::Waiting));
        let ending = |token: &Token| changes.ended.iter().any(|ended| ended.was.arrival == token.arrival);
        let alone = changes.new.iter().all(|(new, _)| {
            let twice = |t: &&Token| {
                let person = t.person == new.person && t.state.is_live() && !ending(t) && new.state.is_live();
                t.arrival == new.arrival || person || new.number.is_some() && t.number == new.number
            };
            self.tokens(id).find(twice).is_none()
        });
        ends && waits && alone
    }

    /// Gives numbers to the next of those who came before; whether all have one.
    pub fn open(&mut self, id: OpeningId, version: u64, limit: u32) -> Result<bool, CommitError> {
        let opening = self.openings.iter_mut().map(|(_, opening)| opening).find(|opening| opening.id == id);
        let opening = opening.filter(|opening| opening.version == version && !opening.opened);
        let Some(opening) = opening else { return Err(CommitError::Stale) };
        opening.version += 1;
        let (_, entrants) = self.beside.entry(id).or_default();
        *entrants = entrants.or(Some(opening.arrivals));
        let tokens = self.tokens.range_mut((id, 0)..=(id, u64::MAX)).map(|(_, place)| place);
        let mut waiting: Vec<_> =
            tokens.filter(|p| p.token.state == State::Waiting && p.token.number.is_none()).collect();
        waiting.sort_by_key(|place| (place.lot, place.token.arrival));
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        opening.opened = waiting.len() < limit;
        for place in waiting.into_iter().take(limit) {
            opening.numbers += 1;
            place.token.number = Some(opening.numbers);
        }
        Ok(opening.opened)
    }

    /// Numbers above the highest let in whose owners have left.
    pub fn left(&self, id: OpeningId) -> Vec<u64> {
        let let_in = self.openings.iter().find(|(_, o)| o.id == id).map_or(0, |(_, o)| o.let_in);
        let left = self.tokens(id).filter(|token| token.state == State::Left);
        let mut left: Vec<_> = left.filter_map(|token| token.number.filter(|n| *n > let_in)).collect();
        left.sort_unstable();
        left
    }

    /// Notes that somebody inside was seen.
    pub fn seen(&mut self, token: &Token, at: Timestamp) -> bool {
        let stored = self.tokens.get_mut(&(token.opening, token.arrival));
        let inside = stored.map(|place| &mut place.token).filter(|token| token.state == State::Inside);
        inside.map(|token| token.seen_at = token.seen_at.max(Some(at))).is_some()
    }

    /// Who has paid is done.
    pub fn finish(&mut self, venue: VenueId, payer: PersonId, at: i64) {
        if flaws::has("token-not-finished") {
            return;
        }
        let of_venue = self.of_venue(venue);
        for place in self.tokens.values_mut() {
            let token = &mut place.token;
            if token.person == payer && token.state == State::Inside && of_venue.contains(&token.opening) {
                (token.state, place.ended_at) = (State::Done, Some(at));
            }
        }
    }

    fn of_venue(&self, venue: VenueId) -> Vec<OpeningId> {
        self.openings.iter().filter(|(whose, _)| *whose == venue).map(|(_, o)| o.id).collect()
    }

    /// Who is inside at a venue, and who has finished by paying, each with the arrival.
    pub fn inside_and_done(&self, venue: VenueId) -> (Places, Places) {
        let of_venue = self.of_venue(venue);
        let of = |state| {
            let tokens = self.tokens.values().map(|place| place.token);
            let tokens = tokens.filter(|token| token.state == state && of_venue.contains(&token.opening));
            tokens.map(|token| (token.person.0, token.arrival)).collect()
        };
        (of(State::Inside), of(State::Done))
    }

    /// Whether this place was given, as it was told, and whether it was ever let in.
    pub fn has(&self, told: &Token) -> Option<bool> {
        let place = self.tokens.get(&(told.opening, told.arrival))?;
        let same =
            place.token.person == told.person && (told.number.is_none() || told.number == place.token.number);
        same.then_some(place.token.let_in_at.is_some())
    }

    /// What should not be when everything has come to rest.
    pub fn unserved(&self, wall: i64) -> Vec<String> {
        let mut found = Vec::new();
        for (venue, opening) in &self.openings {
            let terms = &opening.terms;
            if !terms.enabled || self.newest(*venue).map(|newest| newest.id) != Some(opening.id) {
                continue;
            }
            let long_ago = |at: Option<Timestamp>, seconds: u32| {
                at.is_some_and(|at| at.as_millisecond() + i64::from(seconds) * 1_000 < wall - 5_000)
            };
            let of = |state| self.tokens(opening.id).filter(move |token| token.state == state);
            let waiting = of(State::Waiting).count();
            let inside = of(State::Inside).count();
            let since = |token: &Token| token.let_in_at.max(Some(opening.opens_at));
            let full = i64::try_from(inside) == Ok(i64::from(terms.size));
            if opening.opens_at.as_millisecond() < wall - 5_000 && (!opening.opened || waiting > 0 && !full) {
                found.push(format!("{waiting} wait and {inside} are inside the room of venue {venue}"));
            }
            for token in of(State::Inside) {
                let idle = long_ago(token.seen_at, terms.idle_seconds);
                if idle || long_ago(since(token), terms.total_seconds) {
                    found.push(format!("g{} stays inside the room of venue {venue}", token.person.0));
                }
            }
        }
        found
    }

    /// An opening and its tokens, as `crates/audit` reads them.
    pub fn evidence(&self) -> impl Iterator<Item = (VenueId, audit::Opening, Vec<audit::Token>)> {
        self.openings.iter().map(|(venue, opening)| {
            let (largest, entrants) = self.beside.get(&opening.id).copied().unwrap_or_default();
            let shown = audit::Opening {
                id: opening.id.0,
                venue: venue.0.into(),
                largest: largest.into(),
                order: opening.order.as_str().to_owned(),
                seed: opening.seed.0.to_vec(),
                seed_hash: opening.seed.hash().to_vec(),
                opened: opening.opened,
                entrants: entrants.map(counted),
                arrivals: counted(opening.arrivals),
                numbers: counted(opening.numbers),
                let_in: counted(opening.let_in),
            };
            let places = self.tokens.range((opening.id, 0)..=(opening.id, u64::MAX)).map(|(_, place)| place);
            let tokens = places.map(|Place { token, ended_at, .. }| audit::Token {
                arrival: counted(token.arrival),
                person: audit::Id(token.person.0),
                number: token.number.map(counted),
                state: token.state.as_str().to_owned(),
                let_in_at: token.let_in_at.map(Timestamp::as_millisecond),
                ended_at: *ended_at,
            });
            (*venue, shown, tokens.collect())
        })
    }

    /// Venues in whose rooms something is to be done.
    pub fn due(&self, now: Timestamp) -> Vec<VenueId> {
        let mut venues: Vec<_> = self.openings.iter().map(|(venue, _)| *venue).collect();
        venues.sort_unstable();
        venues.dedup();
        venues.retain(|venue| {
            let Some(room) = self.room(*venue, &[]) else { return false };
            let terms = &room.opening.terms;
            let size = usize::try_from(terms.size).unwrap_or(usize::MAX);
            let lapsed = room.inside.iter().any(|token| !token.is_inside(terms, now));
            let fits = room.opening.opened && !room.next.is_empty() && room.inside.len() < size;
            terms.enabled && (room.opening.is_due(now) || lapsed || fits)
        });
        venues
    }

    /// Who was drawn, by number.
    pub fn drawn(&self, id: OpeningId, after: u64, limit: u32) -> Vec<(u64, PersonId)> {
        let places = self.tokens.range((id, 0)..=(id, u64::MAX)).map(|(_, place)| place);
        let mut drawn: Vec<_> = places
            .filter(|place| place.lot.is_some())
            .map(|place| &place.token)
            .filter_map(|token| Some((token.number.filter(|n| *n > after)?, token.person)))
            .collect();
        drawn.sort_unstable();
        drawn.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        drawn
    }
}

fn counted(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
