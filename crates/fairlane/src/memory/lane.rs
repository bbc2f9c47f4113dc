//! Lanes inside one process: a sharded map of lines, a list of those that have something to do, and turns to run them.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;

use super::line::Line;
use crate::lane::{Bounds, Position, Refused, Side};

/// Few enough to be cheap, many enough that threads rarely meet.
const SHARDS: usize = 64;
/// How much of the newest measurement goes into the pace.
const PACE_WEIGHT: f64 = 0.3;

/// The lanes of one process. `T` stands in line; `S` is what the runner of a lane remembers from batch to batch.
pub struct Lanes<K, T, S> {
    shards: Box<[Mutex<Shard<K, T, S>>]>,
    hasher: RandomState,
    ready: Mutex<VecDeque<K>>,
    /// One permit for each key in `ready`.
    turns: Semaphore,
    bounds: Bounds,
    shut: AtomicBool,
    /// Lanes begin after this number: the highest of any that was forgotten.
    floor: AtomicU64,
    waiting: AtomicUsize,
    /// Lanes on the ready list or being run.
    busy: AtomicUsize,
    idle: Notify,
}

type Shard<K, T, S> = HashMap<K, Lane<T, S>>;

struct Lane<T, S> {
    next: u64,
    owners: Line<T>,
    guests: Line<T>,
    /// Guests drawn and not yet finished.
    drawn: usize,
    busy: bool,
    state: Option<S>,
    pace: Option<f64>,
    /// When the batch before ended, or when the lane woke up.
    since: Instant,
}

impl<T, S> Lane<T, S> {
    fn after(number: u64) -> Self {
        Self {
            next: number,
            owners: Line::default(),
            guests: Line::default(),
            drawn: 0,
            busy: false,
            state: None,
            pace: None,
            since: Instant::now(),
        }
    }
}

impl<T, S> Lane<T, S> {
    fn has_work(&self) -> bool {
        !self.owners.is_empty() || !self.guests.is_empty()
    }

    fn position(&self, ahead: usize) -> Position {
        Position { ahead, waiting: self.guests.len() + self.drawn, pace: self.pace }
    }
}

/// A poisoned lock means that a thread panicked between two field updates of ours, which do not panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<K: Hash + Eq + Clone, T, S> Lanes<K, T, S> {
    /// Lanes within these bounds.
    pub fn new(bounds: Bounds) -> Arc<Self> {
        Arc::new(Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            hasher: RandomState::new(),
            ready: Mutex::default(),
            turns: Semaphore::new(0),
            bounds,
            shut: AtomicBool::new(false),
            floor: AtomicU64::new(0),
            waiting: AtomicUsize::new(0),
            busy: AtomicUsize::new(0),
            idle: Notify::new(),
        })
    }

    fn shard(&self, key: &K) -> MutexGuard<'_, Shard<K, T, S>> {
        let hash = self.hasher.hash_one(key);
        lock(&self.shards[usize::try_from(hash % SHARDS as u64).unwrap_or(0)])
    }

    /// Takes a place. `make` is called with the number while the lane is held, so what it reads of a clock ascends with
    /// the numbers; it must not block.
    pub fn enter(&self, key: K, side: Side, make: impl FnOnce(u64) -> T) -> Result<Position, Refused> {
        let mut shard = self.shard(&key);
        if self.shut.load(Ordering::Acquire) {
            return Err(Refused::Closed);
        }
        let lane =
            shard.entry(key.clone()).or_insert_with(|| Lane::after(self.floor.load(Ordering::Acquire)));
        let guests = lane.guests.len();
        if side == Side::Guest
            && (guests >= self.bounds.lane || self.waiting.load(Ordering::Relaxed) >= self.bounds.total)
        {
            return Err(Refused::Full { waiting: guests });
        }
        let position = self.append(shard, key, side, make);
        Ok(position)
    }

    /// Takes a place for somebody who stood in another line before: neither a bound nor [`shut`](Self::shut) keeps them out.
    pub fn adopt(&self, key: K, side: Side, make: impl FnOnce(u64) -> T) -> Position {
        let mut shard = self.shard(&key);
        shard.entry(key.clone()).or_insert_with(|| Lane::after(self.floor.load(Ordering::Acquire)));
        self.append(shard, key, side, make)
    }

    /// Puts somebody at the end of a lane that exists.
    fn append(
        &self,
        mut shard: MutexGuard<'_, Shard<K, T, S>>,
        key: K,
        side: Side,
        make: impl FnOnce(u64) -> T,
    ) -> Position {
        let Some(lane) = shard.get_mut(&key) else { return Position { ahead: 0, waiting: 0, pace: None } };
        lane.next += 1;
        let number = lane.next;
        let position = match side {
            Side::Owner => {
                lane.owners.push(number, make(number));
                lane.position(0)
            }
            Side::Guest => {
                let ahead = lane.guests.len() + lane.drawn;
                lane.guests.push(number, make(number));
                self.waiting.fetch_add(1, Ordering::Relaxed);
                lane.position(ahead)
            }
        };
        if !lane.busy {
            lane.busy = true;
            lane.since = Instant::now();
            self.busy.fetch_add(1, Ordering::AcqRel);
            drop(shard);
            self.make_ready(key);
        }
        position
    }

    /// Takes everybody who waits out of all lanes, each lane's people in order, owners first. Those being served are left.
    pub fn take_waiting(&self) -> Vec<T> {
        let mut taken = Vec::new();
        for shard in &self.shards {
            for lane in lock(shard).values_mut() {
                taken.extend(std::iter::from_fn(|| lane.owners.pop()));
                let before = taken.len();
                taken.extend(std::iter::from_fn(|| lane.guests.pop()));
                self.waiting.fetch_sub(taken.len() - before, Ordering::Relaxed);
            }
        }
        taken
    }

    fn make_ready(&self, key: K) {
        lock(&self.ready).push_back(key);
        self.turns.add_permits(1);
    }

    /// Where this number stands; `None` once it has been drawn, has left, or never was.
    pub fn position(&self, key: &K, number: u64) -> Option<Position> {
        let shard = self.shard(key);
        let lane = shard.get(key)?;
        if let Some(ahead) = lane.guests.ahead_of(number) {
            return Some(lane.position(lane.drawn + ahead));
        }
        lane.owners.ahead_of(number).map(|ahead| lane.position(ahead))
    }

    /// The lane as somebody who has just been drawn, or who looks at it from outside, sees it.
    pub fn overview(&self, key: &K) -> Position {
        let shard = self.shard(key);
        shard.get(key).map_or(Position { ahead: 0, waiting: 0, pace: None }, |lane| lane.position(0))
    }

    /// Takes a guest out of the line, unless the turn has come already.
    pub fn leave(&self, key: &K, number: u64) -> Option<T> {
        let left = self.shard(key).get_mut(key)?.guests.remove(number);
        if left.is_some() {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
        }
        left
    }

    /// How many guests wait in all lanes.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// How many guests wait in the longest line: for watching, not for deciding.
    pub fn longest(&self) -> usize {
        let of_shard = |shard: &Mutex<Shard<K, T, S>>| {
            lock(shard).values().map(|lane| lane.guests.len()).max().unwrap_or(0)
        };
        self.shards.iter().map(of_shard).max().unwrap_or(0)
    }

    /// Waits for a lane that has something to do; `None` after [`Lanes::close`].
    pub async fn next(self: &Arc<Self>) -> Option<Turn<K, T, S>> {
        self.turns.acquire().await.ok()?.forget();
        // Every permit was added after its key.
        let key = lock(&self.ready).pop_front()?;
        Some(Turn { lanes: self.clone(), key, drawn: 0 })
    }

    /// Lets nobody in any more. Those who stand in line are still served.
    pub fn shut(&self) {
        self.shut.store(true, Ordering::Release);
        // Whoever was just entering has entered once every shard has been held.
        self.shards.iter().for_each(|shard| drop(lock(shard)));
    }

    /// Waits until nobody stands in any lane and nobody is being decided.
    pub async fn until_idle(&self) {
        loop {
            let idle = self.idle.notified();
            if self.busy.load(Ordering::Acquire) == 0 {
                return;
            }
            idle.await;
        }
    }

    /// Lets nobody in any more and ends the waiting of runners. Turns that are being run go on to their end.
    pub fn close(&self) {
        self.shut();
        self.turns.close();
        self.idle.notify_waiters();
    }

    /// Drops what idle lanes remember, and forgets those altogether that are over. No number is given out twice: a lane
    /// that is entered again begins after every number of those that were forgotten.
    pub fn retire(&self, idle_for: Duration, is_over: impl Fn(&K) -> bool) {
        for shard in &self.shards {
            lock(shard).retain(|key, lane| {
                if lane.busy || lane.since.elapsed() < idle_for {
                    return true;
                }
                lane.state = None;
                lane.owners.shrink();
                lane.guests.shrink();
                let forget = is_over(key);
                if forget {
                    self.floor.fetch_max(lane.next, Ordering::AcqRel);
                }
                !forget
            });
        }
    }
}

/// The right to run one lane, until it is [finished](Turn::finish) or dropped.
pub struct Turn<K: Hash + Eq + Clone, T, S> {
    lanes: Arc<Lanes<K, T, S>>,
    key: K,
    drawn: usize,
}

impl<K: Hash + Eq + Clone, T, S> Turn<K, T, S> {
    /// Whose lane.
    pub fn key(&self) -> &K {
        &self.key
    }

    /// Draws the next batch, owners first, and takes out what the runner before remembered.
    pub fn draw(&mut self) -> (Vec<T>, Option<S>) {
        let mut shard = self.lanes.shard(&self.key);
        let Some(lane) = shard.get_mut(&self.key) else { return (Vec::new(), None) };
        let bound = self.lanes.bounds.batch;
        let mut batch = Vec::with_capacity(bound.min(lane.owners.len() + lane.guests.len()));
        while batch.len() < bound
            && let Some(owner) = lane.owners.pop()
        {
            batch.push(owner);
        }
        let owners = batch.len();
        // Only once no owner is left behind: their deadlines are judged before anybody takes their places.
        while batch.len() < bound
            && let Some(guest) = lane.guests.pop()
        {
            batch.push(guest);
        }
        let guests = batch.len() - owners;
        lane.drawn = guests;
        self.drawn = batch.len();
        self.lanes.waiting.fetch_sub(guests, Ordering::Relaxed);
        (batch, lane.state.take())
    }

    /// Gives the lane back with what the next runner should remember.
    pub fn finish(mut self, state: Option<S>) {
        self.give_back(state);
    }

    fn give_back(&mut self, state: Option<S>) {
        let mut shard = self.lanes.shard(&self.key);
        let Some(lane) = shard.get_mut(&self.key) else { return };
        lane.state = state;
        lane.drawn = 0;
        let now = Instant::now();
        let took = now.duration_since(std::mem::replace(&mut lane.since, now)).as_secs_f64();
        if self.drawn > 0 && took > 0.0 {
            #[expect(clippy::cast_precision_loss, reason = "a batch is shorter than 2^52")]
            let newest = self.drawn as f64 / took;
            lane.pace = Some(lane.pace.map_or(newest, |pace| pace + PACE_WEIGHT * (newest - pace)));
        }
        lane.busy = lane.has_work();
        if lane.busy {
            drop(shard);
            self.lanes.make_ready(self.key.clone());
        } else if self.lanes.busy.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.lanes.idle.notify_waiters();
        }
        self.drawn = usize::MAX;
    }
}

impl<K: Hash + Eq + Clone, T, S> Drop for Turn<K, T, S> {
    fn drop(&mut self) {
        if self.drawn != usize::MAX {
            self.drawn = 0;
            self.give_back(None);
        }
    }
}
