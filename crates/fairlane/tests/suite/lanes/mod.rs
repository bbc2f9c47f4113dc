//! Lanes that several processes share over Redis, and the server in memory that stands for it in simulations.

mod behaviour;
mod faults;
mod frugal;
mod model;
mod plain;
mod rebirth;

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use fairlane::RedisConfig;
use fairlane::lane::Side;
use fairlane::lanes::{
    Drawee, Drawn, Entered, Entering, Entry, LaneKey, Place, Settlement, SharedLanes, Terms,
};
use testkit::RedisServer;
use tokio::time::{sleep, timeout};

use crate::world::{LONG, connect, quick};

/// Leases long enough not to play a part, and no grace.
fn unhurried(config: RedisConfig) -> RedisConfig {
    quick(config).with_lane_lease(LONG).with_lane_grace(Duration::ZERO)
}

fn on(server: &RedisServer) -> RedisConfig {
    unhurried(RedisConfig::single(server.url()))
}

/// Lanes as a process of its own has them.
async fn process(config: &RedisConfig) -> SharedLanes {
    connect(config.clone()).await.lanes("slot")
}

fn lane(group: &str, lane: &str) -> LaneKey {
    LaneKey { group: group.into(), lane: lane.into() }
}

/// As a database would give them out.
fn new_epoch() -> u32 {
    static LAST: AtomicU32 = AtomicU32::new(6);
    LAST.fetch_add(1, Ordering::Relaxed) + 1
}

const TERMS: Terms =
    Terms { bound: 100_000, rate: None, floor: 0, epoch: None, known: false, generation: None };

fn guest(request: u64) -> Entry {
    Entry {
        side: Side::Guest,
        request,
        guard: None,
        claim: None,
        limited: false,
        before: None,
        payload: format!("{request}"),
    }
}

fn owner(request: u64) -> Entry {
    Entry { side: Side::Owner, ..guest(request) }
}

fn guarded(request: u64, guard: &str) -> Entry {
    Entry { guard: Some(guard.into()), ..guest(request) }
}

fn back(request: u64, before: Place) -> Entry {
    Entry { before: Some(before), ..guest(request) }
}

/// Enters, with a new epoch if the lane needs one; says whether the caller should run it.
async fn enter_as(
    lanes: &SharedLanes,
    key: &LaneKey,
    terms: &Terms,
    entries: &[Entry],
) -> (Vec<Entered>, bool) {
    let mut terms = *terms;
    for _ in 0..2 {
        match lanes.enter(key, &terms, entries).await.unwrap() {
            Entering::NeedsEpoch => terms.epoch = Some(new_epoch().max(terms.floor)),
            Entering::Done { entered, run, .. } => return (entered, run),
        }
    }
    panic!("a new epoch was not enough");
}

async fn enter(lanes: &SharedLanes, key: &LaneKey, entries: &[Entry]) -> Vec<Entered> {
    enter_as(lanes, key, &TERMS, entries).await.0
}

fn places(entered: &[Entered]) -> Vec<Place> {
    let place = |entered: &Entered| match entered {
        Entered::In(place) => *place,
        other => panic!("not in line: {other:?}"),
    };
    entered.iter().map(place).collect()
}

async fn enter_all(lanes: &SharedLanes, key: &LaneKey, entries: &[Entry]) -> Vec<Place> {
    places(&enter(lanes, key, entries).await)
}

async fn batch(lanes: &SharedLanes, key: &LaneKey, limit: usize, settle: Option<&Settlement>) -> Vec<Drawee> {
    match lanes.draw(key, limit, settle).await.unwrap() {
        Drawn::Batch { people, .. } => people,
        other => panic!("nothing was drawn: {other:?}"),
    }
}

/// Draws everybody who is left and settles them; what they brought.
async fn drain(lanes: &SharedLanes, key: &LaneKey, mut settle: Option<Settlement>) -> Vec<String> {
    let mut all = Vec::new();
    loop {
        match lanes.draw(key, 100, settle.as_ref()).await.unwrap() {
            Drawn::Batch { people, .. } => all.extend(people.into_iter().map(|drawee| drawee.payload)),
            Drawn::Nobody => return all,
            Drawn::Grace(left) => sleep(left).await,
            Drawn::Taken => panic!("another has it"),
        }
        settle = Some(Settlement::default());
    }
}

fn payloads(people: &[Drawee]) -> Vec<&str> {
    people.iter().map(|drawee| drawee.payload.as_str()).collect()
}

async fn until_true(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let reached = async {
        while !holds().await {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(LONG, reached).await.unwrap_or_else(|_| panic!("never came true: {what}"));
}

fn keys(server: &RedisServer) -> Vec<String> {
    let mut keys: Vec<_> = server.command(&["KEYS", "*"]).to_string().lines().map(str::to_owned).collect();
    keys.sort();
    keys
}
