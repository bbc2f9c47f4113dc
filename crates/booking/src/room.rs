//! The waiting room in front of a sale: who gets which number, and who is let in when (C1, C2).
//!
//! [`decide`] is pure, like the one for slots: a room as it is stored and an ordered batch of wishes in, answers and changes
//! out. What is handed to it is small, however many people wait: those inside, the next few, and those who wish something.
//!
//! * Numbers grow by one in order of arrival, without gaps. Who comes before the opening has none until then.
//! * People are let in strictly by number, as soon as fewer than `size` are inside.
//! * Whoever is inside loses the place when idle for too long, or after a time in all, and by leaving or paying.

use std::collections::HashMap;

use jiff::{SignedDuration, Timestamp};
use sha2::{Digest, Sha256};

use crate::ids::PersonId;
use crate::names::named;

named! {
    /// How those who came before the opening are ordered.
    Order {
        /// Who came first goes first.
        Arrival = "arrival",
        /// By lot, which anybody can check afterwards.
        Draw = "draw",
    }
}

named! {
    /// What has become of a place in the room.
    State {
        /// Not let in yet.
        Waiting = "WAITING",
        /// May book.
        Inside = "INSIDE",
        /// Has paid.
        Done = "DONE",
        /// Has left.
        Left = "LEFT",
        /// Was idle for too long, or inside for too long.
        Lapsed = "LAPSED",
    }
}

impl State {
    /// Whether somebody in this state still waits for something.
    pub fn is_live(self) -> bool {
        matches!(self, Self::Waiting | Self::Inside)
    }
}

/// One opening of a sale: numbers of different ones are never compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpeningId(pub i64);

/// How a room is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// Whether there is a room at all; without one the opening only says from when on anybody can book.
    pub enabled: bool,
    /// How many are inside at once.
    pub size: u32,
    /// How long somebody inside may do nothing.
    pub idle_seconds: u32,
    /// How long somebody may be inside.
    pub total_seconds: u32,
}

impl Default for Terms {
    fn default() -> Self {
        Self { enabled: false, size: 10, idle_seconds: 180, total_seconds: 600 }
    }
}

impl Terms {
    /// The most people that can be inside at once: they are all read for every batch.
    pub const MOST: u32 = 1_000;

    /// Whether somebody who was let in and last seen at these instants has lost the place by now.
    pub fn has_lapsed(&self, let_in_at: Timestamp, seen_at: Timestamp, now: Timestamp) -> bool {
        let since = |at: Timestamp| now.duration_since(at);
        since(seen_at) >= SignedDuration::from_secs(self.idle_seconds.into())
            || since(let_in_at) >= SignedDuration::from_secs(self.total_seconds.into())
    }

    /// Whether it is time to write down that somebody has been seen: seldom enough to cost little, often enough that nobody
    /// who does something is taken for idle.
    pub fn is_worth_noting(&self, seen_at: Timestamp, now: Timestamp) -> bool {
        now.duration_since(seen_at) * 6 >= SignedDuration::from_secs(self.idle_seconds.into())
    }
}

/// What a draw is made with: a secret until everybody has a number.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Seed(pub [u8; 32]);

/// Never shown by accident.
impl std::fmt::Debug for Seed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Seed(secret)")
    }
}

impl Seed {
    /// What is published before the draw: SHA-256 of the seed.
    pub fn hash(&self) -> [u8; 32] {
        Sha256::digest(self.0).into()
    }

    /// The lot of an entry: SHA-256 of the seed and the entry. The lowest goes first.
    pub fn lot(&self, entry: [u8; 32]) -> [u8; 32] {
        Sha256::new().chain_update(self.0).chain_update(entry).finalize().into()
    }
}

/// What stands for a person in the list of a draw, which everybody may read: SHA-256 of the opening and the person, so that
/// whoever knows the person finds the entry, and nobody learns the person from it.
pub fn entry(opening: OpeningId, person: PersonId) -> [u8; 32] {
    Sha256::new().chain_update(opening.0.to_be_bytes()).chain_update(person.0.to_be_bytes()).finalize().into()
}

/// An opening as it is stored, without the people in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opening {
    /// Which.
    pub id: OpeningId,
    /// Counts every change; the condition under which a batch is stored.
    pub version: u64,
    /// How the room is run.
    pub terms: Terms,
    /// When the sale opens.
    pub opens_at: Timestamp,
    /// How those who came before are ordered.
    pub order: Order,
    /// What the draw is made with.
    pub seed: Seed,
    /// Whether everybody who came before has a number.
    pub opened: bool,
    /// How many came in all.
    pub arrivals: u64,
    /// How many numbers were given out.
    pub numbers: u64,
    /// The highest number that was let in.
    pub let_in: u64,
}

impl Opening {
    /// Whether those who came before are to be given their numbers now.
    pub fn is_due(&self, now: Timestamp) -> bool {
        !self.opened && self.opens_at <= now
    }

    /// Whether the sale is open at `now`, as far as the clock is concerned.
    pub fn is_open(&self, now: Timestamp) -> bool {
        self.opens_at <= now
    }
}

/// Somebody's place in the room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token {
    /// Which opening's.
    pub opening: OpeningId,
    /// The how-manieth to come.
    pub arrival: u64,
    /// Whose.
    pub person: PersonId,
    /// The place in line, once it is known.
    pub number: Option<u64>,
    /// What has become of it.
    pub state: State,
    /// When it was let in.
    pub let_in_at: Option<Timestamp>,
    /// When its owner last did something inside.
    pub seen_at: Option<Timestamp>,
}

impl Token {
    /// The place as it is at `now`: an idle person has lost it, whether or not that has been written down.
    pub fn at(self, terms: &Terms, now: Timestamp) -> Self {
        let lapsed = self.state == State::Inside && !self.is_inside(terms, now);
        Self { state: if lapsed { State::Lapsed } else { self.state }, ..self }
    }

    /// Whether its owner may book at `now`: an idle person is out the moment the time is over, whoever writes that down.
    pub fn is_inside(&self, terms: &Terms, now: Timestamp) -> bool {
        let times = (self.state == State::Inside).then_some(()).and(self.let_in_at.zip(self.seen_at));
        times.is_some_and(|(let_in, seen)| !terms.has_lapsed(let_in, seen, now))
    }
}

/// A room, as much of it as a batch needs.
#[derive(Debug, Clone)]
pub struct Room {
    /// The opening.
    pub opening: Opening,
    /// Everybody inside.
    pub inside: Vec<Token>,
    /// The next to be let in, by number: as many as there are, or as many as fit into an empty room.
    pub next: Vec<Token>,
    /// The latest tokens of those who wish something.
    pub known: HashMap<PersonId, Token>,
}

/// What somebody wishes of the room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// A place.
    Ask(PersonId),
    /// To give the place up.
    Leave(PersonId),
    /// That whoever can be let in is let in.
    Tick,
}

/// What came of a wish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// A place, new.
    Issued(Token),
    /// There is a live one already (C1).
    AlreadyIssued(Token),
    /// The place that was given up.
    Left(Token),
    /// There is no live place to give up.
    NotThere,
    /// Whoever could be let in was.
    Ticked,
}

/// A place that ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// As it was: the condition under which it ends.
    pub was: Token,
    /// How it ends.
    pub state: State,
}

/// What changes in a room.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// Places that end.
    pub ended: Vec<Ended>,
    /// Stored places that are let in.
    pub let_in: Vec<Token>,
    /// New places as they begin, and their lots where there is a draw.
    pub new: Vec<(Token, Option<[u8; 32]>)>,
}

impl Changes {
    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        self.ended.is_empty() && self.let_in.is_empty() && self.new.is_empty()
    }

    /// The new place of this arrival, if it is one: they arrive one after the other.
    fn begun(&mut self, arrival: u64) -> Option<&mut Token> {
        let first = self.new.first()?.0.arrival;
        let at = usize::try_from(arrival.checked_sub(first)?).ok()?;
        self.new.get_mut(at).map(|(token, _)| token)
    }
}

/// Decides wishes in order, at `now`, and lets in whoever fits. The room is afterwards as it will be stored, except for its
/// version. An opening that is due must have been opened before.
pub fn decide(room: &mut Room, wishes: &[Wish], now: Timestamp) -> (Vec<Answer>, Changes) {
    debug_assert!(!room.opening.is_due(now), "who came before has numbers first");
    let mut changes = Changes::default();
    let terms = room.opening.terms;
    room.inside.retain(|token| {
        let stays = token.is_inside(&terms, now);
        #[cfg(feature = "simulation")]
        let stays = stays || crate::flaws::has("idle-stay-inside");
        if !stays {
            changes.ended.push(Ended { was: *token, state: State::Lapsed });
            room.known.remove(&token.person);
        }
        stays
    });
    // Everybody who waits is known by name only if there are fewer of them than fit in.
    let all_named = room.next.len() < usize::try_from(terms.size).unwrap_or(usize::MAX);
    let mut answers: Vec<_> = wishes
        .iter()
        .map(|wish| match *wish {
            Wish::Ask(person) => ask(room, &mut changes, person, all_named),
            Wish::Leave(person) => leave(room, &mut changes, person),
            Wish::Tick => Answer::Ticked,
        })
        .collect();
    let_in(room, &mut changes, now);
    // Whoever was let in at once is told so.
    for answer in &mut answers {
        if let Answer::Issued(token) = answer
            && let Some(latest) = room.known.get(&token.person)
            && (latest.arrival, latest.state) == (token.arrival, State::Inside)
        {
            *token = *latest;
        }
    }
    (answers, changes)
}

fn ask(room: &mut Room, changes: &mut Changes, person: PersonId, all_named: bool) -> Answer {
    if let Some(token) = room.known.get(&person).filter(|token| token.state.is_live()) {
        return Answer::AlreadyIssued(*token);
    }
    let opening = &mut room.opening;
    opening.arrivals += 1;
    opening.numbers += u64::from(opening.opened);
    let token = Token {
        opening: opening.id,
        arrival: opening.arrivals,
        person,
        number: opening.opened.then_some(opening.numbers),
        state: State::Waiting,
        let_in_at: None,
        seen_at: None,
    };
    let drawn = !opening.opened && opening.order == Order::Draw;
    let lot = drawn.then(|| opening.seed.lot(entry(opening.id, person)));
    changes.new.push((token, lot));
    room.known.insert(person, token);
    if all_named && token.number.is_some() {
        room.next.push(token);
    }
    Answer::Issued(token)
}

fn leave(room: &mut Room, changes: &mut Changes, person: PersonId) -> Answer {
    let Some(token) = room.known.get_mut(&person).filter(|token| token.state.is_live()) else {
        return Answer::NotThere;
    };
    let was = std::mem::replace(token, Token { state: State::Left, ..*token });
    let left = *token;
    room.inside.retain(|inside| inside.arrival != was.arrival);
    room.next.retain(|next| next.arrival != was.arrival);
    match changes.begun(was.arrival) {
        // It came and went in the same batch; its number is taken all the same.
        Some(new) => new.state = State::Left,
        None => changes.ended.push(Ended { was, state: State::Left }),
    }
    Answer::Left(left)
}

fn let_in(room: &mut Room, changes: &mut Changes, now: Timestamp) {
    if !room.opening.opened {
        return;
    }
    let size = usize::try_from(room.opening.terms.size).unwrap_or(usize::MAX);
    #[cfg(feature = "simulation")]
    let size = size + usize::from(crate::flaws::has("one-too-many-inside"));
    let free = size.saturating_sub(room.inside.len()).min(room.next.len());
    for token in room.next.drain(..free) {
        let inside = Token { state: State::Inside, let_in_at: Some(now), seen_at: Some(now), ..token };
        room.opening.let_in = room.opening.let_in.max(token.number.unwrap_or(0));
        match changes.begun(token.arrival) {
            Some(new) => *new = inside,
            None => changes.let_in.push(inside),
        }
        room.known.insert(token.person, inside);
        room.inside.push(inside);
    }
}
