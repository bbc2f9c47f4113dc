//! Openings and waiting rooms in memory: the same conditions as the tables of the real databases.

use std::collections::{BTreeMap, HashMap};

use booking::room::{Opening, OpeningId, Room, State, Terms, Token};
use booking::{PersonId, VenueId, flaws};
use jiff::Timestamp;
use store::{CommitError, NewOpening, RoomBatch};

/// Both tables.
#[derive(Debug, Clone, Default)]
pub struct Rooms {
    openings: Vec<(VenueId, Opening)>,
    tokens: BTreeMap<(OpeningId, u64), (Token, Option<[u8; 32]>)>,
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
        self.openings.push((venue, opening.clone()));
        opening
    }

    /// Sets how the room is run.
    pub fn set_terms(&mut self, venue: VenueId, terms: Terms, otherwise: NewOpening) -> Opening {
        match self.newest_mut(venue) {
            Some(opening) => {
                (opening.version, opening.terms) = (opening.version + 1, terms);
                opening.clone()
            }
            None => self.insert(venue, NewOpening { terms, ..otherwise }),
        }
    }

    /// All tokens of an opening, by arrival.
    pub fn tokens(&self, opening: OpeningId) -> impl Iterator<Item = &Token> {
        self.tokens.range((opening, 0)..=(opening, u64::MAX)).map(|(_, (token, _))| token)
    }

    /// A person's latest token.
    pub fn latest(&self, opening: OpeningId, person: PersonId) -> Option<Token> {
        self.tokens(opening).filter(|token| token.person == person).last().copied()
    }

    /// What a batch is decided from.
    pub fn room(&self, venue: VenueId, people: &[PersonId]) -> Option<Room> {
        let opening = self.newest(venue)?.clone();
        let of = |state| self.tokens(opening.id).filter(move |token| token.state == state);
        let mut next: Vec<_> = of(State::Waiting).filter(|token| token.number.is_some()).copied().collect();
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
        let at = self.openings.iter().position(|(_, opening)| opening.id == id);
        let Some(at) = at else { return Err(CommitError::Stale) };
        let version = self.openings[at].1.version;
        if version != batch.opening.version && !flaws::has("no-version-check") {
            return Err(CommitError::Stale);
        }
        let fits = batch.changes.ended.iter().all(|ended| {
            let stored = self.tokens.get(&(id, ended.was.arrival)).map(|(token, _)| token);
            stored.is_some_and(|t| (t.state, t.seen_at) == (ended.was.state, ended.was.seen_at))
        });
        if !fits {
            return Err(CommitError::Stale);
        }
        for ended in &batch.changes.ended {
            if let Some((token, _)) = self.tokens.get_mut(&(id, ended.was.arrival)) {
                token.state = ended.state;
            }
        }
        for token in &batch.changes.let_in {
            if let Some((stored, _)) = self.tokens.get_mut(&(id, token.arrival)) {
                *stored = *token;
            }
        }
        for (token, lot) in &batch.changes.new {
            self.tokens.insert((id, token.arrival), (*token, *lot));
        }
        self.openings[at].1 = Opening { version: version + 1, ..batch.opening.clone() };
        Ok(())
    }

    /// Gives numbers to the next of those who came before; whether all have one.
    pub fn open(&mut self, id: OpeningId, version: u64, limit: u32) -> Result<bool, CommitError> {
        let opening = self.openings.iter_mut().map(|(_, opening)| opening).find(|opening| opening.id == id);
        let opening = opening.filter(|opening| opening.version == version && !opening.opened);
        let Some(opening) = opening else { return Err(CommitError::Stale) };
        opening.version += 1;
        let tokens = self.tokens.range_mut((id, 0)..=(id, u64::MAX)).map(|(_, token)| token);
        let mut waiting: Vec<_> =
            tokens.filter(|(t, _)| t.state == State::Waiting && t.number.is_none()).collect();
        waiting.sort_by_key(|(token, lot)| (*lot, token.arrival));
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        opening.opened = waiting.len() < limit;
        for (token, _) in waiting.into_iter().take(limit) {
            opening.numbers += 1;
            token.number = Some(opening.numbers);
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
        let inside = stored.map(|(token, _)| token).filter(|token| token.state == State::Inside);
        inside.map(|token| token.seen_at = token.seen_at.max(Some(at))).is_some()
    }

    /// Who has paid is done.
    pub fn finish(&mut self, venue: VenueId, payer: PersonId) {
        let of_venue: Vec<_> =
            self.openings.iter().filter(|(whose, _)| *whose == venue).map(|(_, o)| o.id).collect();
        for (token, _) in self.tokens.values_mut() {
            if token.person == payer && token.state == State::Inside && of_venue.contains(&token.opening) {
                token.state = State::Done;
            }
        }
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
        let tokens = self.tokens.range((id, 0)..=(id, u64::MAX)).map(|(_, token)| token);
        let mut drawn: Vec<_> = tokens
            .filter(|(_, lot)| lot.is_some())
            .filter_map(|(token, _)| Some((token.number.filter(|n| *n > after)?, token.person)))
            .collect();
        drawn.sort_unstable();
        drawn.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        drawn
    }
}
