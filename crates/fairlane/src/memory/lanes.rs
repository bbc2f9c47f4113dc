//! The server of shared lanes as plain data: what the Lua scripts do to Redis, done to a value.
//!
//! It has no clock, no network and no lock. Whoever calls says what time it is (µs) and by which client, and carries replies
//! and messages; a copy of the value is a snapshot of the server. So a simulation can lose, delay and repeat calls, empty
//! the server, or let an older copy of it take over.
//!
//! Names and steps are those of the scripts in `redis/`. There is no cluster here.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use crate::lane::{Position, Side};
use crate::lanes::{Drawee, Drawn, Entered, Entering, Entry, Found, LaneKey, Look, Place, Settlement, Terms};

/// An untouched lane with somebody in it is forgotten after this many µs; an empty one sooner.
const IDLE: u64 = 600_000_000;
const EMPTY: u64 = 300_000_000;
/// A claim is, after this many.
const CLAIM: u64 = 600_000_000;
/// How much of the newest measurement goes into the pace.
const WEIGHT: f64 = 0.3;

/// A message: to which client, and what.
pub type Said = (Box<str>, String);

/// How long a runner has a lane, and how long a lane that is born anew waits.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    /// The lease.
    pub lease: Duration,
    /// The grace.
    pub grace: Duration,
}

impl Default for Times {
    fn default() -> Self {
        Self { lease: Duration::from_secs(2), grace: Duration::from_secs(1) }
    }
}

/// Who calls, and when.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// The client.
    pub client: &'a str,
    /// µs by this server's clock.
    pub now: u64,
}

/// All lanes of one kind.
#[derive(Debug, Clone, Default)]
pub struct Server {
    times: Times,
    /// What it calls itself since it started.
    name: u64,
    groups: BTreeMap<Box<str>, Group>,
}

#[derive(Debug, Clone, Default)]
struct Group {
    lanes: BTreeMap<Box<str>, Lane>,
    runners: BTreeMap<Box<str>, (Box<str>, u64)>,
    /// Guards of winners, by lane and name: the place, and until when.
    kept: BTreeMap<(Box<str>, Box<str>), (Place, u64)>,
    /// By whom, until when, in which lane.
    claims: BTreeMap<Box<str>, (Held, u64, Box<str>)>,
    left: BTreeMap<(Box<str>, Place), (String, u64)>,
    /// Passes by time, in the order given out.
    rate: Vec<u64>,
}

/// Which request has a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Held {
    place: Place,
    request: u64,
}

#[derive(Debug, Clone)]
struct Stander {
    place: Place,
    payload: String,
    again: bool,
}

#[derive(Debug, Clone, Default)]
struct Lane {
    /// The server that gave its last numbers out.
    server: u64,
    epoch: u32,
    born: u32,
    last: u64,
    again_up_to: u64,
    hold: u64,
    batch: u64,
    deciding: usize,
    pace: Option<f64>,
    since: Option<u64>,
    note: String,
    until: u64,
    /// In order of number, without gaps; the head is somebody.
    guests: VecDeque<Option<Stander>>,
    owners: VecDeque<Stander>,
    old: BTreeMap<Place, Stander>,
    flight: Vec<Stander>,
    guards: BTreeMap<Box<str>, Held>,
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

impl Lane {
    fn is_empty(&self) -> bool {
        self.guests.is_empty() && self.owners.is_empty() && self.old.is_empty() && self.flight.is_empty()
    }

    fn keep(&mut self, empty: bool, now: u64) {
        if empty {
            self.guards.clear();
        }
        self.until = now + if empty { EMPTY } else { IDLE };
    }

    fn first(&self) -> u64 {
        (self.last + 1).saturating_sub(self.guests.len() as u64)
    }

    fn gone(&self) -> impl Iterator<Item = u64> {
        (self.first()..).zip(&self.guests).filter(|(_, guest)| guest.is_none()).map(|(number, _)| number)
    }

    fn gone_before(&self, number: u64) -> usize {
        self.gone().take_while(|gone| *gone < number).count()
    }

    fn waiting(&self) -> usize {
        self.guests.iter().flatten().count() + self.old.len()
    }

    fn find_guest(&self, place: Place) -> Option<usize> {
        let index = usize::try_from(place.number.checked_sub(self.first())?).ok()?;
        self.guests.get(index)?.as_ref().filter(|guest| guest.place == place).map(|_| index)
    }

    fn stands(&self, place: Place) -> bool {
        let elsewhere = self.flight.iter().chain(&self.owners).any(|stander| stander.place == place);
        elsewhere || self.find_guest(place).is_some() || self.old.contains_key(&place)
    }

    fn strip(&mut self) {
        while matches!(self.guests.front(), Some(None)) {
            self.guests.pop_front();
        }
    }

    fn head(&self) -> Option<Place> {
        self.guests.front().and_then(|guest| guest.as_ref()).map(|guest| guest.place)
    }

    fn mark(&self, mut stander: Stander) -> Stander {
        stander.again |= stander.place.number <= self.again_up_to;
        stander
    }

    /// Owners, then those who came back and those who stand here in one order of places.
    fn draw(&mut self, limit: usize) {
        let mut drawn = Vec::new();
        while drawn.len() < limit
            && let Some(owner) = self.owners.pop_front()
        {
            drawn.push(self.mark(owner));
        }
        self.deciding = 0;
        let guests = drawn.len();
        while drawn.len() < limit && self.owners.is_empty() {
            let back = self.old.first_key_value().map(|(place, _)| *place);
            let guest = match (back, self.head()) {
                (Some(back), head) if head.is_none_or(|head| head > back) => self.old.remove(&back),
                (_, Some(_)) => self.guests.pop_front().flatten(),
                _ => None,
            };
            let Some(guest) = guest else { break };
            drawn.push(self.mark(guest));
            self.strip();
        }
        self.deciding = drawn.len() - guests;
        self.flight = drawn;
    }
}

impl Group {
    fn runner(&self, lane: &str, now: u64) -> Option<&str> {
        self.runners.get(lane).filter(|(_, until)| *until > now).map(|(client, _)| &**client)
    }

    fn run(&mut self, lane: &str, call: Call<'_>, lease: Duration) {
        self.runners.insert(lane.into(), (call.client.into(), call.now + micros(lease)));
    }

    /// Drops what has ended.
    fn forget(&mut self, now: u64) {
        self.lanes.retain(|_, lane| lane.until > now);
        self.runners.retain(|_, (_, until)| *until > now);
        self.kept.retain(|_, (_, until)| *until > now);
        self.claims.retain(|_, (_, until, _)| *until > now);
        self.left.retain(|_, (_, until)| *until > now);
    }
}

/// One call of [`Server::enter`] while it goes through its entries.
struct Party<'a> {
    group: &'a mut Group,
    lane: &'a str,
    now: u64,
    terms: &'a Terms,
    before: Lane,
    of_call: BTreeSet<Place>,
    passes: u32,
    used: Option<u32>,
    due: u64,
    entered: bool,
}

enum Known {
    No,
    Taken(Place),
    Itself(Place),
}

impl Party<'_> {
    fn state(&mut self) -> &mut Lane {
        self.group.lanes.entry(self.lane.into()).or_default()
    }

    fn stands_already(&mut self, place: Place) -> bool {
        self.of_call.contains(&place) || self.before.stands(place) || self.state().old.contains_key(&place)
    }

    /// Whether the request stands there already under one of its names, or another that has one.
    fn known(&mut self, entry: &Entry) -> Known {
        let mut taken = None;
        let guard = entry.guard.as_deref().filter(|name| !name.is_empty());
        let claim = entry.claim.as_deref().filter(|name| !name.is_empty());
        if let Some(name) = guard
            && let Some(held) = self.state().guards.get(name).copied()
        {
            if held.request != entry.request {
                taken = taken.or(Some(held.place));
            } else if self.stands_already(held.place) {
                return Known::Itself(held.place);
            } else {
                // Its own from a time that is over.
                self.state().guards.remove(name);
            }
        }
        if let Some(name) = claim
            && let Some((held, _, _)) = self.group.claims.get(name).cloned()
        {
            if held.request != entry.request {
                taken = taken.or(Some(held.place));
            } else if self.stands_already(held.place) {
                return Known::Itself(held.place);
            } else {
                self.group.claims.remove(name);
            }
        }
        if let Some(name) = guard
            && let Some((place, _)) = self.group.kept.get(&(self.lane.into(), name.into()))
        {
            taken = taken.or(Some(*place));
        }
        taken.map_or(Known::No, Known::Taken)
    }

    fn hold_names(&mut self, place: Place, entry: &Entry) {
        let held = Held { place, request: entry.request };
        if let Some(name) = entry.guard.as_deref().filter(|name| !name.is_empty()) {
            self.state().guards.entry(name.into()).or_insert(held);
        }
        if let Some(name) = entry.claim.as_deref().filter(|name| !name.is_empty()) {
            let until = self.now + CLAIM;
            self.group.claims.entry(name.into()).or_insert((held, until, self.lane.into()));
        }
    }

    fn over_rate(&mut self) -> bool {
        let Some((limit, window)) = self.terms.rate.filter(|(limit, _)| *limit > 0) else { return false };
        let (now, window) = (self.now, micros(window));
        let used = *self.used.get_or_insert_with(|| {
            self.group.rate.retain(|at| *at <= now + window);
            let used = self.group.rate.iter().filter(|at| **at + window > now).count();
            u32::try_from(used).unwrap_or(u32::MAX)
        });
        if used >= limit && self.due == 0 {
            let stored = usize::try_from(limit - self.passes.min(limit)).unwrap_or(0);
            let at = self.group.rate.len().checked_sub(stored).filter(|_| stored > 0);
            let frees = at.and_then(|at| self.group.rate.get(at)).copied().unwrap_or(now);
            self.due = (frees + window).saturating_sub(now).max(1);
        }
        used >= limit
    }

    fn enter(&mut self, entry: &Entry) -> Entered {
        let claim = entry.claim.as_deref().filter(|_| entry.before.is_none());
        let elsewhere = claim.and_then(|claim| self.group.claims.get(claim));
        if let Some((held, _, lane)) = elsewhere.filter(|(_, _, lane)| **lane != *self.lane) {
            return Entered::InProgressIn(lane.clone(), held.place);
        }
        let known = self.known(entry);
        if let Known::Itself(place) = known {
            return Entered::In(place);
        }
        if let Some(before) = entry.before {
            if self.group.left.contains_key(&(self.lane.into(), before)) {
                return Entered::Left;
            }
            if !self.stands_already(before) {
                let stander = Stander { place: before, payload: entry.payload.clone(), again: true };
                match entry.side {
                    Side::Owner => self.state().owners.push_back(stander),
                    Side::Guest => drop(self.state().old.insert(before, stander)),
                }
                self.entered = true;
            }
            self.hold_names(before, entry);
            self.of_call.insert(before);
            return Entered::In(before);
        }
        if let Known::Taken(place) = known {
            return Entered::InProgress(place);
        }
        if entry.limited && self.over_rate() {
            return Entered::Limited(Duration::from_micros(self.due));
        }
        let waiting = self.state().waiting();
        if entry.side == Side::Guest && waiting >= self.terms.bound {
            return Entered::Full { waiting };
        }
        let place = self.take(entry);
        self.entered = true;
        self.of_call.insert(place);
        self.hold_names(place, entry);
        Entered::In(place)
    }

    fn take(&mut self, entry: &Entry) -> Place {
        let lane = self.state();
        lane.last += 1;
        let place = Place { epoch: lane.epoch, number: lane.last };
        let stander = Stander { place, payload: entry.payload.clone(), again: false };
        match entry.side {
            Side::Guest => lane.guests.push_back(Some(stander)),
            Side::Owner => {
                lane.owners.push_back(stander);
                if !lane.guests.is_empty() {
                    lane.guests.push_back(None);
                }
            }
        }
        if entry.limited && self.terms.rate.is_some_and(|(limit, _)| limit > 0) {
            self.used = self.used.map(|used| used + 1);
            self.passes += 1;
        }
        place
    }
}

impl Server {
    /// A server without anybody.
    pub fn new(times: Times) -> Self {
        Self { times, name: 0, groups: BTreeMap::new() }
    }

    /// Starts anew, with what it knows: as a server does that read it from a file, or takes over from another.
    pub fn start_anew(&mut self, name: u64) {
        self.name = name;
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.groups.clear();
    }

    /// How many stand in any line or are being decided.
    pub fn people(&self) -> usize {
        let lanes = self.groups.values().flat_map(|group| group.lanes.values());
        lanes.map(|lane| lane.waiting() + lane.owners.len() + lane.flight.len()).sum()
    }

    fn group(&mut self, key: &LaneKey, now: u64) -> &mut Group {
        let group = self.groups.entry(key.group.clone()).or_default();
        group.forget(now);
        group
    }

    /// Takes everybody of a call in, in order.
    pub fn enter(&mut self, call: Call<'_>, key: &LaneKey, terms: &Terms, entries: &[Entry]) -> Entering {
        let (now, times, server) = (call.now, self.times, self.name);
        let group = self.group(key, now);
        let epoch = group.lanes.get(&key.lane).map(|lane| lane.epoch);
        let moved = group.lanes.get(&key.lane).is_some_and(|lane| lane.server != server);
        if moved || epoch.is_none_or(|epoch| epoch < terms.floor) {
            let Some(drawn) =
                terms.epoch.filter(|drawn| *drawn >= terms.floor && epoch.is_none_or(|epoch| *drawn > epoch))
            else {
                return Entering::NeedsEpoch;
            };
            let mut held = true;
            if epoch.is_none() {
                group.runners.remove(&key.lane);
                held = terms.known || entries.iter().any(|entry| entry.before.is_some());
            }
            let lane = group.lanes.entry(key.lane.clone()).or_default();
            match epoch {
                None => lane.born = drawn,
                Some(_) => lane.again_up_to = lane.last,
            }
            (lane.epoch, lane.server) = (drawn, server);
            if held {
                lane.hold = now + micros(times.grace);
            }
        }
        let before = group.lanes.get(&key.lane).cloned().unwrap_or_default();
        let woke = before.is_empty();
        let mut one = Party {
            group,
            lane: &key.lane,
            now,
            terms,
            before,
            of_call: BTreeSet::new(),
            passes: 0,
            used: None,
            due: 0,
            entered: false,
        };
        let entered: Vec<_> = entries.iter().map(|entry| one.enter(entry)).collect();
        let (someone, passes) = (one.entered, one.passes);
        if passes > 0 {
            group.rate.extend((0..passes).map(|_| now));
            let limit = terms.rate.map_or(0, |(limit, _)| usize::try_from(limit).unwrap_or(usize::MAX));
            let over = group.rate.len().saturating_sub(limit);
            group.rate.drain(..over);
        }
        let empty = woke && !someone;
        let run = !empty && group.runner(&key.lane, now).is_none();
        if run {
            group.run(&key.lane, call, times.lease);
        }
        let lane = group.lanes.entry(key.lane.clone()).or_default();
        if someone && woke {
            lane.since = Some(now);
        }
        lane.keep(empty, now);
        Entering::Done { entered, born: lane.born, run }
    }

    /// Settles what was drawn before, and draws the next or, with a limit of 0, gives the lane back. `settles` names the batch
    /// that was drawn; the one that is drawn now is named in the answer.
    pub fn draw(
        &mut self,
        call: Call<'_>,
        key: &LaneKey,
        limit: usize,
        settles: Option<(u64, &Settlement)>,
    ) -> (Drawn, Option<u64>, Vec<Said>) {
        let (now, times, server) = (call.now, self.times, self.name);
        let group = self.group(key, now);
        if group.runner(&key.lane, now).is_some_and(|runner| runner != call.client) {
            return (Drawn::Taken, None, Vec::new());
        }
        let mut said = Vec::new();
        if let Some((batch, settlement)) = settles
            && let Some(lane) = group.lanes.get_mut(&key.lane)
            && lane.batch == batch
            && !lane.flight.is_empty()
        {
            said.clone_from(&settlement.messages);
            settle(group, key, settlement, now);
        }
        let nobody = group.lanes.get(&key.lane).is_none_or(Lane::is_empty);
        if limit == 0 || nobody {
            group.runners.remove(&key.lane);
            if let Some(lane) = group.lanes.get_mut(&key.lane) {
                lane.keep(lane.is_empty(), now);
            }
            return (Drawn::Nobody, None, said);
        }
        group.run(&key.lane, call, times.lease);
        let lane = group.lanes.entry(key.lane.clone()).or_default();
        lane.keep(false, now);
        if lane.hold > now {
            // The batch that this client drew before is its own still.
            let batch = settles.map(|(batch, _)| batch);
            return (Drawn::Grace(Duration::from_micros(lane.hold - now)), batch, said);
        }
        if lane.server != server {
            // A copy that took over: what it has in line may have been served since it was made.
            lane.again_up_to = lane.last;
        }
        let again = !lane.flight.is_empty();
        if !again {
            lane.draw(limit);
        }
        lane.batch = now.max(lane.batch + 1);
        let people = lane.flight.iter().map(|stander| Drawee {
            place: stander.place,
            payload: stander.payload.clone(),
            again: again || stander.again,
        });
        let note = Some(lane.note.clone()).filter(|note| !note.is_empty());
        (Drawn::Batch { people: people.collect(), note }, Some(lane.batch), said)
    }

    /// Keeps the lane for another lease, unless another has it.
    pub fn renew(&mut self, call: Call<'_>, key: &LaneKey) -> bool {
        let times = self.times;
        let group = self.group(key, call.now);
        if group.runner(&key.lane, call.now).is_some_and(|runner| runner != call.client) {
            return false;
        }
        group.run(&key.lane, call, times.lease);
        if let Some(lane) = group.lanes.get_mut(&key.lane).filter(|lane| !lane.is_empty()) {
            lane.keep(false, call.now);
        }
        true
    }

    /// Ends the lease of whoever runs the lane.
    pub fn end_lease(&mut self, key: &LaneKey) {
        self.groups.entry(key.group.clone()).or_default().runners.remove(&key.lane);
    }

    /// The lane as it is.
    pub fn look(&mut self, now: u64, key: &LaneKey) -> Option<Look> {
        let group = self.group(key, now);
        let has_runner = group.runner(&key.lane, now).is_some();
        let lane = group.lanes.get_mut(&key.lane)?;
        if !lane.is_empty() {
            lane.keep(false, now);
        }
        Some(Look {
            born: lane.born,
            epoch: lane.epoch,
            last: lane.last,
            first: lane.first(),
            waiting: lane.waiting(),
            deciding: lane.deciding,
            returned: lane.old.keys().copied().collect(),
            gone: lane.gone().collect(),
            pace: lane.pace,
            has_runner,
        })
    }

    /// Who stands at a place, and where that is.
    pub fn find(&mut self, now: u64, key: &LaneKey, place: Place) -> Option<Found> {
        let group = self.group(key, now);
        let lane = group.lanes.get(&key.lane)?;
        let at = |ahead| Position { ahead, waiting: lane.waiting() + lane.deciding, pace: lane.pace };
        let found = |payload: &str, ahead: Option<usize>| {
            Some(Found { payload: payload.to_owned(), position: ahead.map(at), left: false })
        };
        if let Some(index) = lane.find_guest(place) {
            let ahead = index - lane.gone_before(place.number) + lane.old.range(..place).count();
            let payload = lane.guests[index].as_ref().map_or("", |guest| &guest.payload);
            return found(payload, Some(lane.deciding + ahead));
        }
        if let Some(stander) = lane.old.get(&place) {
            let mut ahead = lane.old.range(..place).count();
            if lane.head().is_some_and(|head| head < place) {
                // A copy took over that still knew those in front; what it gave out since is behind.
                let to = match place.epoch < lane.epoch {
                    true => place.number.min(lane.again_up_to + 1),
                    false => place.number,
                };
                let before = to.saturating_sub(lane.first()).min(lane.guests.len() as u64);
                ahead += usize::try_from(before).unwrap_or(0);
                ahead -= lane.gone_before(to).min(ahead);
            }
            return found(&stander.payload, Some(lane.deciding + ahead));
        }
        if let Some((payload, _)) = group.left.get(&(key.lane.clone(), place)) {
            return Some(Found { payload: payload.clone(), position: None, left: true });
        }
        if let Some(drawn) = lane.flight.iter().find(|drawn| drawn.place == place) {
            return found(&drawn.payload, None);
        }
        let ahead = lane.owners.iter().position(|owner| owner.place == place)?;
        found(&lane.owners[ahead].payload, Some(ahead))
    }

    /// Takes a guest out of the line unless its turn has come; what is said to whom.
    pub fn leave(
        &mut self,
        now: u64,
        key: &LaneKey,
        place: Place,
        (guard, claim): (Option<&str>, Option<&str>),
        tell: Option<(&str, &str)>,
    ) -> (bool, Vec<Said>) {
        let group = self.group(key, now);
        let Some(lane) = group.lanes.get_mut(&key.lane) else { return (false, Vec::new()) };
        let stander = match lane.find_guest(place) {
            Some(index) => lane.guests[index].take(),
            None => lane.old.remove(&place),
        };
        let Some(stander) = stander else { return (false, Vec::new()) };
        lane.strip();
        group.left.insert((key.lane.clone(), place), (stander.payload, now + IDLE));
        if let Some(guard) = guard
            && lane.guards.get(guard).is_some_and(|held| held.place == place)
        {
            lane.guards.remove(guard);
        }
        if let Some(claim) = claim
            && group.claims.get(claim).is_some_and(|(held, ..)| held.place == place)
        {
            group.claims.remove(claim);
        }
        lane.keep(lane.is_empty(), now);
        (true, tell.iter().map(|(to, text)| ((*to).into(), (*text).to_owned())).collect())
    }

    /// How many guests wait in each lane of a group.
    pub fn waiting(&mut self, now: u64, group: &str, lanes: &[Box<str>]) -> Vec<usize> {
        let key = LaneKey { group: group.into(), lane: "".into() };
        let group = self.group(&key, now);
        lanes.iter().map(|lane| group.lanes.get(lane).map_or(0, Lane::waiting)).collect()
    }

    /// Lanes with somebody in them and no runner.
    pub fn unattended(&mut self, now: u64) -> Vec<LaneKey> {
        let mut found = Vec::new();
        for (name, group) in &mut self.groups {
            group.forget(now);
            let busy = group.lanes.iter().filter(|(_, lane)| !lane.is_empty());
            let alone = busy.filter(|(lane, _)| group.runner(lane, now).is_none());
            found.extend(alone.map(|(lane, _)| LaneKey { group: name.clone(), lane: lane.clone() }));
        }
        found
    }
}

fn settle(group: &mut Group, key: &LaneKey, settlement: &Settlement, now: u64) {
    let Some(lane) = group.lanes.get_mut(&key.lane) else { return };
    lane.flight.clear();
    let winners = settlement.kept.iter().map(|(guard, _)| guard);
    for guard in settlement.guards.iter().chain(winners) {
        lane.guards.remove(guard);
    }
    for claim in &settlement.claims {
        group.claims.remove(claim);
    }
    for (guard, place) in &settlement.kept {
        let until = now + micros(settlement.keep).max(1000);
        group.kept.insert((key.lane.clone(), guard.clone()), (*place, until));
    }
    for name in &settlement.forget {
        group.kept.remove(name);
    }
    let since = lane.since.unwrap_or(now);
    if settlement.decided > 0 && now > since {
        #[expect(clippy::cast_precision_loss, reason = "batches and times between them are far below 2^52")]
        let newest = settlement.decided as f64 * 1_000_000.0 / (now - since) as f64;
        lane.pace = Some(lane.pace.map_or(newest, |pace| pace + WEIGHT * (newest - pace)));
    }
    lane.since = Some(now);
    lane.note.clone_from(&settlement.note);
    lane.deciding = 0;
}
