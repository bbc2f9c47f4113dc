//! Several processes do anything in any order, and every answer is that of a simple model: over Redis, and over the server in
//! memory, which is worth as much to a simulation as it does the same.

use std::collections::{BTreeMap, HashMap, HashSet};

use fairlane::lanes::{Drawee, Drawn, Entered, Entering, Place, Settlement};
use testkit::RedisServer;

use super::plain::Plain;
use super::*;

const PROCESSES: usize = 3;
const BOUND: usize = 15;

#[derive(Debug, Clone)]
struct Person {
    place: Place,
    side: Side,
    request: u64,
    guard: Option<Box<str>>,
    again: bool,
}

impl Person {
    fn entry(&self, before: Option<Place>) -> Entry {
        let payload = format!("{} with {:?}", self.request, self.guard);
        Entry { side: self.side, guard: self.guard.clone(), before, payload, ..guest(self.request) }
    }
}

/// A lane as one would write it down without a thought for cost.
#[derive(Debug, Default)]
struct Model {
    epoch: Option<u32>,
    last: u64,
    /// Guests, those who came back among them, by place.
    line: BTreeMap<Place, Person>,
    owners: Vec<Person>,
    flight: Vec<Person>,
    guards: HashMap<Box<str>, (Place, u64)>,
    /// Who left, and is not brought back.
    left: HashSet<Place>,
    runner: Option<usize>,
    /// Which draw brought what is in flight, and which draw each process heard of last.
    batch: usize,
    heard: [Option<usize>; PROCESSES],
}

impl Model {
    fn is_empty(&self) -> bool {
        self.line.is_empty() && self.owners.is_empty() && self.flight.is_empty()
    }

    fn everybody(&self) -> impl Iterator<Item = &Person> {
        self.line.values().chain(&self.owners).chain(&self.flight)
    }

    fn enter(&mut self, entry: &Entry) -> Entered {
        let held = entry.guard.as_ref().and_then(|guard| self.guards.get(guard)).copied();
        if let Some((place, request)) = held
            && (request == entry.request || entry.before.is_none())
        {
            return if request == entry.request { Entered::In(place) } else { Entered::InProgress(place) };
        }
        if entry.before.is_some_and(|before| self.left.contains(&before)) {
            return Entered::Left;
        }
        if entry.before.is_none() && entry.side == Side::Guest && self.line.len() >= BOUND {
            return Entered::Full { waiting: self.line.len() };
        }
        let place = entry.before.unwrap_or_else(|| {
            self.last += 1;
            Place { epoch: self.epoch.unwrap(), number: self.last }
        });
        if !self.everybody().any(|person| person.place == place) {
            let (side, request, guard) = (entry.side, entry.request, entry.guard.clone());
            let person = Person { place, side, request, guard, again: entry.before.is_some() };
            match side {
                Side::Owner => self.owners.push(person),
                Side::Guest => drop(self.line.insert(place, person)),
            }
        }
        if let (Some(guard), None) = (&entry.guard, held) {
            self.guards.insert(guard.clone(), (place, entry.request));
        }
        Entered::In(place)
    }

    /// Whether somebody who wants to draw or settle may.
    fn admits(&self, process: usize) -> bool {
        self.runner.is_none_or(|runner| runner == process)
    }

    fn settle(&mut self, process: usize) {
        if self.heard[process] == Some(self.batch) {
            for person in std::mem::take(&mut self.flight) {
                person.guard.map(|guard| self.guards.remove(&guard));
            }
        }
    }

    fn draw(&mut self, process: usize, limit: usize) -> Vec<Person> {
        if self.flight.is_empty() {
            let owners = self.owners.len().min(limit);
            self.flight = self.owners.drain(..owners).collect();
            while self.owners.is_empty()
                && self.flight.len() < limit
                && let Some((_, person)) = self.line.pop_first()
            {
                self.flight.push(person);
            }
        } else {
            self.flight.iter_mut().for_each(|person| person.again = true);
        }
        self.batch += 1;
        self.heard[process] = Some(self.batch);
        self.flight.clone()
    }

    /// How many are ahead, if that place is somebody's.
    fn ahead(&self, place: Place) -> Option<Option<usize>> {
        let deciding = self.flight.iter().filter(|person| person.side == Side::Guest).count();
        if self.flight.iter().any(|person| person.place == place) {
            return Some(None);
        }
        if self.line.contains_key(&place) {
            return Some(Some(deciding + self.line.range(..place).count()));
        }
        self.owners.iter().position(|person| person.place == place).map(Some)
    }
}

struct Dice(u64);

impl Dice {
    fn up_to(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }

    fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.up_to(length as u64)).unwrap()
    }
}

/// Where the lanes are kept.
enum Kept {
    Redis(RedisServer),
    Plain(Plain),
}

impl Kept {
    async fn process(&self, nth: usize) -> SharedLanes {
        match self {
            Self::Redis(server) => process(&on(server)).await,
            Self::Plain(plain) => plain.process(format!("p{nth}")),
        }
    }

    fn end_lease(&self, key: &LaneKey) {
        match self {
            Self::Redis(server) => drop(server.command(&["DEL", "fairlane:slot:{g}:runner:a"])),
            Self::Plain(plain) => plain.with(|server, _| server.end_lease(key)),
        }
    }

    fn forget(&self) {
        match self {
            Self::Redis(server) => drop(server.command(&["FLUSHALL"])),
            Self::Plain(plain) => plain.with(|server, _| server.clear()),
        }
    }

    fn is_busy(&self) -> bool {
        match self {
            Self::Redis(server) => {
                server.command(&["SISMEMBER", "fairlane:slot:{g}:busy", "a"]).number() == 1
            }
            Self::Plain(plain) => plain.with(|server, _| server.people() > 0),
        }
    }
}

struct Story {
    kept: Kept,
    processes: Vec<SharedLanes>,
    key: LaneKey,
    dice: Dice,
    model: Model,
    /// Every place that ever was somebody's.
    given: Vec<Place>,
    /// Those whom Redis forgot.
    lost: Vec<Person>,
    requests: u64,
}

impl Story {
    async fn step(&mut self) {
        let process = self.dice.index(PROCESSES);
        match self.dice.up_to(100) {
            0..40 => self.enter(process).await,
            40..50 => self.come_back(process).await,
            50..65 => self.leave(process).await,
            65..90 => self.draw(process).await,
            90..94 => self.give_back(process).await,
            94..97 => {
                // The runner's lease ends.
                self.kept.end_lease(&self.key);
                self.model.runner = None;
            }
            97..99 => self.raise(process).await,
            _ => {
                self.kept.forget();
                self.lost.extend(self.model.everybody().cloned());
                let (batch, heard) = (self.model.batch + 1, self.model.heard);
                self.model = Model { batch, heard, ..Model::default() };
            }
        }
        self.compare(process).await;
    }

    fn somebody(&mut self) -> Person {
        self.requests += self.dice.up_to(2);
        let guard = (self.dice.up_to(4) > 0).then(|| format!("{}", self.dice.up_to(12)).into());
        let side = if self.dice.up_to(4) == 0 { Side::Owner } else { Side::Guest };
        let place = Place { epoch: 0, number: 0 };
        Person { place, side, request: self.requests, guard, again: false }
    }

    async fn enter(&mut self, process: usize) {
        let entries: Vec<_> = (0..1 + self.dice.up_to(6)).map(|_| self.somebody().entry(None)).collect();
        self.send(process, &entries, 0).await;
    }

    async fn come_back(&mut self, process: usize) {
        let mut entries = Vec::new();
        for person in &self.lost {
            if self.dice.up_to(3) == 0 {
                entries.push(person.entry(Some(person.place)));
            }
        }
        let turn = self.dice.index(entries.len().max(1));
        entries.rotate_left(turn);
        self.send(process, &entries, 0).await;
    }

    /// A process has a new connection.
    async fn raise(&mut self, process: usize) {
        let entries = [self.somebody().entry(None)];
        let floor = new_epoch();
        self.send(process, &entries, floor).await;
    }

    async fn send(&mut self, process: usize, entries: &[Entry], floor: u32) {
        let lanes = &self.processes[process];
        let mut terms = Terms { bound: BOUND, floor, ..TERMS };
        let model = &mut self.model;
        if model.epoch.is_none_or(|epoch| epoch < floor) {
            assert!(matches!(lanes.enter(&self.key, &terms, entries).await.unwrap(), Entering::NeedsEpoch));
            let epoch = new_epoch();
            terms.epoch = Some(epoch);
            if model.epoch.is_some() {
                model.line.values_mut().chain(&mut model.owners).for_each(|person| person.again = true);
            }
            model.epoch = Some(epoch);
        }
        let Entering::Done { entered, run, .. } = lanes.enter(&self.key, &terms, entries).await.unwrap()
        else {
            panic!("it has an epoch")
        };
        let expected: Vec<_> = entries.iter().map(|entry| model.enter(entry)).collect();
        assert_eq!(entered, expected);
        assert_eq!(run, model.runner.is_none() && !model.is_empty());
        if run {
            model.runner = Some(process);
        }
        self.given.extend(entered.iter().filter_map(|entered| match entered {
            Entered::In(place) => Some(*place),
            _ => None,
        }));
    }

    fn any_place(&mut self) -> Option<Place> {
        let living: Vec<_> = self.model.everybody().map(|person| person.place).collect();
        let from = if self.dice.up_to(4) == 0 { &self.given } else { &living };
        if from.is_empty() { None } else { Some(from[self.dice.index(from.len())]) }
    }

    async fn leave(&mut self, process: usize) {
        let Some(place) = self.any_place() else { return };
        let model = &mut self.model;
        let gone = model.line.remove(&place);
        model.left.extend(gone.as_ref().map(|person| person.place));
        let guard = gone.as_ref().and_then(|person| person.guard.clone());
        if let Some(guard) = &guard
            && model.guards.get(guard).is_some_and(|(its, _)| *its == place)
        {
            model.guards.remove(guard);
        }
        if model.is_empty() {
            model.guards.clear();
        }
        let left =
            self.processes[process].leave(&self.key, place, guard.as_deref(), None, None).await.unwrap();
        assert_eq!(left, gone.is_some(), "{place:?}");
    }

    /// A settlement as the process would write it that drew what is in flight.
    fn settlement(&mut self) -> Option<Settlement> {
        let guards = self.model.flight.iter().filter_map(|person| person.guard.clone()).collect();
        (self.dice.up_to(4) > 0).then(|| Settlement { guards, ..Settlement::default() })
    }

    async fn draw(&mut self, process: usize) {
        let (limit, settle) = (1 + self.dice.index(8), self.settlement());
        let drawn = self.processes[process].draw(&self.key, limit, settle.as_ref()).await.unwrap();
        let model = &mut self.model;
        if !model.admits(process) {
            assert!(matches!(drawn, Drawn::Taken), "{drawn:?}");
            model.heard[process] = None;
            return;
        }
        if settle.is_some() {
            model.settle(process);
        }
        if model.is_empty() {
            assert!(matches!(drawn, Drawn::Nobody), "{drawn:?}");
            model.runner = None;
            model.heard[process] = None;
            model.guards.clear();
            return;
        }
        let Drawn::Batch { people, .. } = drawn else { panic!("{drawn:?}") };
        model.runner = Some(process);
        let shown = |it: Drawee| (it.place, it.payload, it.again);
        let people: Vec<_> = people.into_iter().map(shown).collect();
        let expected = model.draw(process, limit);
        let expected: Vec<_> =
            expected.iter().map(|it| (it.place, it.entry(None).payload, it.again)).collect();
        assert_eq!(people, expected);
    }

    async fn give_back(&mut self, process: usize) {
        let settle = self.settlement();
        self.processes[process].give_back(&self.key, settle.as_ref()).await.unwrap();
        let model = &mut self.model;
        if model.admits(process) {
            if settle.is_some() {
                model.settle(process);
            }
            model.runner = None;
            if model.is_empty() {
                model.guards.clear();
            }
        }
        model.heard[process] = None;
    }

    async fn compare(&mut self, process: usize) {
        let lanes = self.processes[process].clone();
        let look = lanes.look(&self.key).await.unwrap();
        let deciding = self.model.flight.iter().filter(|person| person.side == Side::Guest).count();
        match look {
            None => assert!(self.model.epoch.is_none()),
            Some(look) => {
                assert_eq!((look.last, look.waiting), (self.model.last, self.model.line.len()));
                assert_eq!((look.deciding, look.has_runner), (deciding, self.model.runner.is_some()));
                let at = |number| Place { epoch: u32::MAX, number };
                let stands = |number: &u64| look.position(at(*number)).is_some();
                let standing = (1..=look.last).filter(stands).count();
                assert_eq!(standing + look.returned.len(), look.waiting);
                let present = self.model.line.values().filter(|person| !person.again);
                for person in present.filter(|_| look.returned.is_empty()) {
                    let position = look.position(person.place).unwrap();
                    assert_eq!(Some(Some(position.ahead)), self.model.ahead(person.place));
                }
            }
        }
        assert_eq!(self.kept.is_busy(), !self.model.is_empty());
        for _ in 0..4 {
            let Some(place) = self.any_place() else { return };
            let found = lanes.find(&self.key, place).await.unwrap().filter(|found| !found.left);
            let ahead = found.map(|found| found.position.map(|position| position.ahead));
            assert_eq!(ahead, self.model.ahead(place), "{place:?}");
        }
    }
}

/// Tells the story of a seed; how many places were given out in it.
async fn tell(seed: u64, kept: Kept) -> usize {
    let mut processes = Vec::new();
    for nth in 0..PROCESSES {
        processes.push(kept.process(nth).await);
    }
    let mut story = Story {
        kept,
        processes,
        key: lane("g", "a"),
        dice: Dice(0x9E37_79B9_7F4A_7C15 ^ seed),
        model: Model::default(),
        given: Vec::new(),
        lost: Vec::new(),
        requests: 0,
    };
    for step in 0..400 {
        println!("seed {seed}, step {step}");
        story.step().await;
    }
    story.given.len()
}

#[tokio::test]
async fn whatever_processes_do_is_what_the_model_says() {
    for seed in 1..=12 {
        let given = tell(seed, Kept::Redis(RedisServer::start())).await;
        assert!(given > 200, "seed {seed}: too little happened to show anything");
    }
}

#[tokio::test]
async fn the_server_in_memory_does_what_the_model_says() {
    let mut given = 0;
    for seed in 1..=500 {
        given += tell(seed, Kept::Plain(Plain::start())).await;
    }
    assert!(given > 500 * 200, "too little happened to show anything: {given}");
}
