//! Shared lanes: the lines of [`lane`](crate::lane), kept in Redis where several processes share them.
//!
//! Whoever enters is told its place; one of the processes is told to run the lane. It draws a batch, does it, settles it
//! and draws the next in one call, until nobody is left. What is drawn stays in flight until it is settled, so what a
//! runner that died had drawn is drawn again.
//!
//! A lane belongs to a *group*; all keys of a group share one hash tag, so a group lives on one node of a Redis Cluster and
//! whatever concerns it is one script. Payloads are opaque text.
//!
//! Where they are kept is a [`Backend`]: Redis ([`Client::lanes`](crate::Client)), or the same server in [`memory`], for
//! simulations.
//!
//! # Guarantee
//!
//! * **Order.** Numbers of a lane grow by one in order of entry at Redis, owners and guests together. Batches are drawn in
//!   that order; a new one is not drawn before the last is settled.
//! * **Two sides.** As in [`lane`](crate::lane): owners first, and no guest while an owner is left behind.
//! * **One live request** a guard in the lane and a claim in the group; the same request again gets its old place.
//! * **One runner.** A client runs a lane under a lease by the server's clock. One that was paused past its lease may still
//!   be at work when the next begins: what it does must be safe without the lease. Its settlement is not applied.
//! * **Once.** Whatever is sent again because its answer was lost acts once: an entry by its guard, claim or old place, a
//!   settlement by the batch that it settles.
//! * **Exact positions.** Leavers are not counted, nor the numbers that owners took.
//! * **Epochs.** A place is (epoch, number). A lane that was forgotten, or may have lost its last numbers, takes nobody in
//!   until the caller brings a higher epoch. It then waits a short grace before anything is drawn, so that those who still
//!   hold places come back; they are drawn in the order of their places, ahead of everybody new.
//!
//! # Cost
//!
//! One script and one round trip for each call; [`enter`](SharedLanes::enter) takes up to 256 at once. Entering is O(log n)
//! each at most, drawing O(batch). Leaving and finding somebody step over the line in pieces of 8 KiB: 8 µs to the middle of
//! 100,000 people, where we measured it. A guest in line with a payload of 190 bytes and a guard takes less than 400 bytes.
//! What is in flight is searched from end to end by [`find`](SharedLanes::find), so batches should be bounded.
//!
//! # Failure
//!
//! Each call is sent once: a Redis that does not answer costs one timeout, and nothing is known of what became of the
//! call. Repeat it.
//!
//! * *The runner dies*: after its lease the lane has no runner, which the next to enter is told, and which
//!   [`look`](SharedLanes::look) and [`unattended`](SharedLanes::unattended) show. Whoever draws next gets what was in flight
//!   first, as it was drawn.
//! * *Redis is emptied*: entering says [`NeedsEpoch`](Entering::NeedsEpoch). The callers bring back whom they still know, with
//!   [`before`](Entry::before). Rates count anew.
//! * *A replica takes over that has not heard everything*: in a cluster the lane notices and asks for a new epoch; elsewhere
//!   the connection is a new one, [`generation`](SharedLanes::generation) changes, and the caller raises the
//!   [`floor`](Terms::floor). Numbers that were lost are then given out again in another epoch, and whoever is in line is
//!   drawn as one who may have been served. What is drawn before the first entry with the new floor is not marked so,
//!   except in a cluster.
//! * *Nobody touches a lane for ten minutes*: it is forgotten. A claim is, ten minutes after it was made.

use std::fmt::Debug;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use crate::error::Result;
use crate::lane::{Position, Side};

pub use crate::memory::lanes as memory;

/// Which lane of which group. Both parts are short names.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LaneKey {
    /// What shares a rate, claims and a node.
    pub group: Box<str>,
    /// The lane within the group.
    pub lane: Box<str>,
}

/// A place in a lane: the life in which the number was given, and the number. Ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The life in which the number was given.
    pub epoch: u32,
    /// The number.
    pub number: u64,
}

/// Somebody who wants to stand in a lane. A guard or claim that is empty is none.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Which side.
    pub side: Side,
    /// Names the request: the same name with the same guard is the same request, and gets the same place.
    pub request: u64,
    /// One live request a name in this lane.
    pub guard: Option<Box<str>>,
    /// One live request a name in the whole group.
    pub claim: Option<Box<str>>,
    /// Counts against the group's rate.
    pub limited: bool,
    /// Where it stood in a life of the lane that is gone: taken in that order, ahead of everybody new. Neither rate nor
    /// bound applies; entering again with the same `before` is harmless.
    pub before: Option<Place>,
    /// What the runner gets.
    pub payload: String,
}

/// What holds for all entries of a call.
#[derive(Debug, Clone, Copy)]
pub struct Terms {
    /// Guests who may stand in the lane.
    pub bound: usize,
    /// At most so many in any window, in the group.
    pub rate: Option<(u32, Duration)>,
    /// A lane whose epoch is below this needs a new one.
    pub floor: u32,
    /// An epoch that was drawn just now, after the lane said it needs one.
    pub epoch: Option<u32>,
    /// The caller knows that this lane was here a short while ago: born anew, it waits the grace for those who still hold
    /// places.
    pub known: bool,
    /// The [connection](SharedLanes::generation) for which `floor` is good: on another one nobody enters, because the server
    /// may be another. `None` for any.
    pub generation: Option<u64>,
}

/// How entering went.
#[derive(Debug)]
pub enum Entering {
    /// The lane is not there, or its epoch is too low: draw an epoch and come again. Nobody has entered.
    NeedsEpoch,
    /// Everybody has an answer.
    Done {
        /// One for each entry, in order.
        entered: Vec<Entered>,
        /// The life of the lane: changes when it was forgotten.
        born: u32,
        /// The caller has the lane now and should draw.
        run: bool,
    },
}

/// What became of one entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entered {
    /// In line, now or already (the same request came before).
    In(Place),
    /// Another live request has the guard or the claim.
    InProgress(Place),
    /// Another live request has the claim, in another lane of the group.
    InProgressIn(Box<str>, Place),
    /// Over the rate: come back after this long.
    Limited(Duration),
    /// The line is as long as it may be.
    Full {
        /// Guests in line.
        waiting: usize,
    },
    /// It came back, and has left the line meanwhile.
    Left,
}

/// Somebody drawn.
#[derive(Debug, Clone)]
pub struct Drawee {
    /// Where it stood.
    pub place: Place,
    /// What it brought.
    pub payload: String,
    /// It may have been served before: by a runner that died, or in another life of the lane.
    pub again: bool,
}

/// What a draw brought.
#[derive(Debug)]
pub enum Drawn {
    /// These, in order: owners, then guests.
    Batch {
        /// At least one.
        people: Vec<Drawee>,
        /// What the last settlement noted, if anything.
        note: Option<String>,
    },
    /// The line is empty and the lane given back.
    Nobody,
    /// The lane waits for those who come back; draw again after this long. The caller keeps it.
    Grace(Duration),
    /// Another runs it.
    Taken,
}

/// How a batch ended. It settles everybody who was drawn.
#[derive(Debug, Clone, Default)]
pub struct Settlement {
    /// Guards to clear, of this lane.
    pub guards: Vec<Box<str>>,
    /// Claims to clear, of the group.
    pub claims: Vec<Box<str>>,
    /// Guards of winners: they stand for `keep` longer.
    pub kept: Vec<(Box<str>, Place)>,
    /// How long those stand.
    pub keep: Duration,
    /// Kept guards to end before their time: lane of the same group, name.
    pub forget: Vec<(Box<str>, Box<str>)>,
    /// To the clients of these names.
    pub messages: Vec<(Box<str>, String)>,
    /// For whoever draws next.
    pub note: String,
    /// How many guests were decided, for the pace.
    pub decided: usize,
}

/// A lane as it is now.
#[derive(Debug, Clone)]
pub struct Look {
    /// The life of the lane.
    pub born: u32,
    /// The life in which numbers are given out now: later than `born` where the lane may have lost numbers since.
    pub epoch: u32,
    /// The last number given.
    pub last: u64,
    /// The number at the head of the guests: last + 1 when nobody stands there.
    pub first: u64,
    /// Guests in line: those who came back included, leavers not.
    pub waiting: usize,
    /// Guests being decided.
    pub deciding: usize,
    /// Those who came back from an earlier life and stand ahead of `first`, in order; where an older copy of the lane took
    /// over, some of them may stand further behind.
    pub returned: Vec<Place>,
    /// Numbers from `first` on at which no guest stands, ascending.
    pub gone: Vec<u64>,
    /// Guests decided a second; `None` until something was decided.
    pub pace: Option<f64>,
    /// Whether somebody runs it.
    pub has_runner: bool,
}

impl Look {
    /// Where the guest of this place stands; `None` if no guest stands there.
    pub fn position(&self, place: Place) -> Option<Position> {
        let Place { epoch, number } = place;
        let ahead = match self.returned.binary_search(&place) {
            Ok(ahead) => ahead,
            Err(_) if epoch >= self.born && (self.first..=self.last).contains(&number) => {
                let gone = self.gone.binary_search(&number).err()?;
                self.returned.len() + usize::try_from(number - self.first).ok()?.checked_sub(gone)?
            }
            Err(_) => return None,
        };
        let waiting = self.waiting + self.deciding;
        Some(Position { ahead: self.deciding + ahead, waiting, pace: self.pace })
    }
}

/// Somebody in a lane.
#[derive(Debug)]
pub struct Found {
    /// What it brought.
    pub payload: String,
    /// `None` while it is being decided, and after it has left.
    pub position: Option<Position>,
    /// It has left the line, in the last minutes.
    pub left: bool,
}

/// What a client hears.
#[derive(Debug)]
pub enum Message {
    /// What a settlement sent to this client.
    Said(String),
    /// The subscription is new, or too much was unread: what was said before may have been missed.
    Connected,
}

/// An answer under way.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// Where shared lanes are kept, as one client of it sees them. What each call does is said at [`SharedLanes`].
pub trait Backend: Debug + Send + Sync {
    /// The name of this client.
    fn client(&self) -> &str;
    /// Changes whenever the server may have changed.
    fn generation(&self) -> u64;
    /// Whether it answers and takes writes.
    fn ping(&self) -> Answer<'_, ()>;
    /// Takes places.
    fn enter<'a>(&'a self, key: &'a LaneKey, terms: &'a Terms, entries: &'a [Entry]) -> Answer<'a, Entering>;
    /// Settles the batch before and draws the next; with a limit of 0, gives the lane back.
    fn draw<'a>(
        &'a self,
        key: &'a LaneKey,
        limit: usize,
        settle: Option<&'a Settlement>,
    ) -> Answer<'a, Drawn>;
    /// Keeps the lane for another lease.
    fn renew<'a>(&'a self, key: &'a LaneKey) -> Answer<'a, bool>;
    /// The lane as it is.
    fn look<'a>(&'a self, key: &'a LaneKey) -> Answer<'a, Option<Look>>;
    /// Who stands at this place.
    fn find<'a>(&'a self, key: &'a LaneKey, place: Place) -> Answer<'a, Option<Found>>;
    /// Takes a guest out of the line.
    fn leave<'a>(
        &'a self,
        key: &'a LaneKey,
        place: Place,
        guard: Option<&'a str>,
        claim: Option<&'a str>,
        tell: Option<(&'a str, &'a str)>,
    ) -> Answer<'a, bool>;
    /// Guests waiting in each of these lanes.
    fn waiting<'a>(&'a self, group: &'a str, lanes: &'a [Box<str>]) -> Answer<'a, Vec<usize>>;
    /// Lanes with somebody in them and no runner.
    fn unattended(&self) -> Answer<'_, Vec<LaneKey>>;
    /// Messages to this client.
    fn messages(&self) -> mpsc::Receiver<Message>;
}

/// The shared lanes of one kind, made by [`Client::lanes`](crate::Client). The [module](self) says what they promise.
///
/// All calls fail with [`Unavailable`](crate::Error::Unavailable) when Redis does not answer in time.
#[derive(Debug, Clone)]
pub struct SharedLanes {
    backend: Arc<dyn Backend>,
}

impl SharedLanes {
    /// Lanes that are kept there.
    pub fn over(backend: Arc<dyn Backend>) -> Self {
        Self { backend }
    }

    /// The name under which this client hears messages.
    pub fn client(&self) -> &str {
        self.backend.client()
    }

    /// Changes whenever the server may have changed (new connection).
    pub fn generation(&self) -> u64 {
        self.backend.generation()
    }

    /// Whether Redis answers and takes writes: two cheap commands, one attempt. Of a cluster all primaries are asked.
    pub async fn ping(&self) -> Result<()> {
        self.backend.ping().await
    }

    /// Takes places for all of these, or says why not, in their order. Up to 256 at once; many more would hold up the
    /// server.
    pub async fn enter(&self, key: &LaneKey, terms: &Terms, entries: &[Entry]) -> Result<Entering> {
        self.backend.enter(key, terms, entries).await
    }

    /// Settles the batch before, if any, and draws the next: one call. What was drawn and not settled is drawn again.
    pub async fn draw(&self, key: &LaneKey, limit: usize, settle: Option<&Settlement>) -> Result<Drawn> {
        self.backend.draw(key, limit.max(1), settle).await
    }

    /// Settles the batch before, if any, and gives the lane back. What was drawn and is not settled is drawn again by the
    /// next.
    pub async fn give_back(&self, key: &LaneKey, settle: Option<&Settlement>) -> Result<()> {
        self.backend.draw(key, 0, settle).await.map(drop)
    }

    /// Keeps the lane for another lease; false if another has it.
    pub async fn renew(&self, key: &LaneKey) -> Result<bool> {
        self.backend.renew(key).await
    }

    /// The lane as it is; `None` if there is none. Keeps its keys from ending while somebody is in it.
    pub async fn look(&self, key: &LaneKey) -> Result<Option<Look>> {
        self.backend.look(key).await
    }

    /// Who stands at this place, on either side, is being decided or has left; `None` if nobody.
    pub async fn find(&self, key: &LaneKey, place: Place) -> Result<Option<Found>> {
        self.backend.find(key, place).await
    }

    /// Takes a guest out of the line unless its turn has come; clears the guard and the claim if they are this place's, and
    /// tells a client. That it left is remembered for ten minutes, so that nobody brings it back.
    pub async fn leave(
        &self,
        key: &LaneKey,
        place: Place,
        guard: Option<&str>,
        claim: Option<&str>,
        tell: Option<(&str, &str)>,
    ) -> Result<bool> {
        self.backend.leave(key, place, guard, claim, tell).await
    }

    /// Guests waiting in each of these lanes, those being decided not counted.
    pub async fn waiting(&self, group: &str, lanes: &[Box<str>]) -> Result<Vec<usize>> {
        self.backend.waiting(group, lanes).await
    }

    /// Lanes with somebody in them and no runner, in any group that was active lately. Of more than a thousand groups the
    /// latest are asked, and of more than a thousand lanes of a group some.
    pub async fn unattended(&self) -> Result<Vec<LaneKey>> {
        self.backend.unattended().await
    }

    /// Messages to this client about lanes of this kind; may be called once, a second call ends the first one's.
    /// Messages are hints: they may be lost, and are dropped when 4,096 are unread.
    pub fn messages(&self) -> mpsc::Receiver<Message> {
        self.backend.messages()
    }
}
