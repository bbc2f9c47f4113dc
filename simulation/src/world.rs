//! One world from its beginning to its end.

use std::cell::RefCell;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use booking::room::Seed;
use booking::venue::Inventory;
use booking::{SlotId, flaws};
use jiff::civil::{date, time};
use jiff::{SignedDuration, Timestamp};
use maitred::chance::seeded;

use crate::auditor::Stock;
use crate::dice::Dice;
use crate::guests::{About, Guest, Town};
use crate::hub::{BEGINNING, Hub, Shared, lock};
use crate::process::Process;
use crate::swarm::{Opens, Swarm};
use store::NewOpening;

/// Things go wrong until then, in µs.
const FAULTS_END: u64 = 16_000_000;
/// The world ends at the latest then.
const LATEST: u64 = 240_000_000;
/// After the last guest has gone, everything settles for so long.
const SETTLING: u64 = 14_000_000;

/// How a world went.
pub struct Outcome {
    /// The seed.
    pub seed: u64,
    /// Names all that happened.
    pub hash: u64,
    /// What must not have happened.
    pub violations: Vec<(Option<i64>, String)>,
    /// What happened, if somebody wants to read it.
    pub lines: Vec<(u64, Option<i64>, String)>,
    /// Decisions.
    pub decided: usize,
    /// Reservations won.
    pub won: usize,
    /// Guests.
    pub guests: usize,
}

enum Fault {
    Crash(usize),
    Pause(usize, u64),
    Outage(u64),
    Emptied(bool),
    Failover,
    Copy,
    StoreOutage(u64),
    ClockStep(usize, i64),
    Change,
}

thread_local!(static PANICKED: RefCell<Option<String>> = const { RefCell::new(None) });

/// Panics in any task of a world are violations; this lets the world know of them.
pub fn hear_panics() {
    std::panic::set_hook(Box::new(|info| {
        PANICKED.with_borrow_mut(|panicked| *panicked = Some(info.to_string()));
    }));
}

struct World {
    swarm: Swarm,
    hub: Shared,
    dice: Dice,
    processes: Vec<Option<Process>>,
    /// When each comes up again, or wakes.
    until: Vec<u64>,
    /// When each fell asleep.
    slept: Vec<u64>,
    guests: Process,
    about: About,
    /// What goes wrong, and when; the latest first.
    faults: Vec<(u64, Fault)>,
}

/// Runs the world of a seed, with a flaw in the code if one is named.
pub fn run(seed: u64, flaw: Option<&'static str>, kept: bool) -> Outcome {
    seeded::begin(Some(seed));
    flaws::introduce(flaw);
    PANICKED.with_borrow_mut(Option::take);
    let mut dice = Dice::new(seed);
    let swarm = Swarm::new(&mut dice);
    flaws::AT_PROVIDER.set(Some(SignedDuration::from_secs(swarm.at_provider.into())));
    let hub = Hub::new(&swarm, Dice::new(dice.bits()), kept);
    let mut world = World {
        processes: (0..swarm.processes).map(|_| None).collect(),
        until: vec![0; swarm.processes],
        slept: vec![0; swarm.processes],
        hub: Arc::new(Mutex::new(hub)),
        guests: Process::empty(0),
        about: Arc::new(Mutex::new(swarm.guests)),
        faults: plan(&swarm, &mut dice),
        swarm,
        dice,
    };
    world.begin();
    world.live();
    world.end(seed)
}

/// What goes wrong when.
fn plan(swarm: &Swarm, dice: &mut Dice) -> Vec<(u64, Fault)> {
    let mut plan = Vec::new();
    let f = &swarm.faults;
    let mut add = |times: usize, dice: &mut Dice, make: &mut dyn FnMut(&mut Dice) -> Fault| {
        for _ in 0..times {
            let at = dice.between(300_000, FAULTS_END - 1_000_000);
            plan.push((at, make(dice)));
        }
    };
    let last = swarm.processes - 1;
    add(f.crashes, dice, &mut |dice| Fault::Crash(dice.count(0, last)));
    add(f.pauses, dice, &mut |dice| Fault::Pause(dice.count(0, last), dice.between(300_000, 6_000_000)));
    add(f.store_outages, dice, &mut |dice| Fault::StoreOutage(dice.between(100_000, 4_000_000)));
    add(f.clock_steps, dice, &mut |dice| {
        let by = i64::try_from(dice.between(0, 6_000)).unwrap_or(0) - 3_000;
        Fault::ClockStep(dice.count(0, last), by)
    });
    add(f.changes, dice, &mut |_| Fault::Change);
    if swarm.redis {
        add(f.outages, dice, &mut |dice| Fault::Outage(dice.between(50_000, 5_000_000)));
        add(f.emptied, dice, &mut |dice| Fault::Emptied(dice.per_mille(500)));
        add(f.failovers, dice, &mut |_| Fault::Failover);
        if f.failovers > 0 {
            add(20, dice, &mut |_| Fault::Copy);
        }
    }
    plan.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
    plan
}

fn opening(opens: &Opens, dice: &mut Dice) -> NewOpening {
    let at = BEGINNING + i64::try_from(opens.after).unwrap_or(0);
    let mut seed = [0; 32];
    seed.chunks_mut(8).for_each(|part| part.copy_from_slice(&dice.bits().to_be_bytes()));
    NewOpening {
        opens_at: Timestamp::from_millisecond(at).unwrap_or_default(),
        order: opens.order,
        seed: Seed(seed),
        terms: opens.terms,
    }
}

fn stock(inventory: &Inventory) -> Stock {
    match inventory {
        Inventory::Places { capacity } => Stock::Places(*capacity),
        Inventory::Exclusive => Stock::One,
        Inventory::Seats { sections } => {
            let labels = |seats: &[booking::Seat]| seats.iter().map(ToString::to_string).collect();
            Stock::Hall(sections.rows().map(|(_, _, seats)| labels(seats)).collect())
        }
        Inventory::Tables { tables } => {
            Stock::Tables(tables.iter().map(|table| (table.number, table.seats)).collect())
        }
    }
}

impl World {
    fn begin(&mut self) {
        let mut slots = Vec::new();
        let mut town = Town::default();
        {
            let mut hub = lock(&self.hub);
            hub.note(None, format!("{:?}", self.swarm));
            for (settings, opens) in self.swarm.venues.iter().zip(&self.swarm.rooms) {
                let id = hub.rows.add_venue(settings.clone());
                if let Some(opens) = opens {
                    let opening = opening(opens, &mut self.dice);
                    hub.rows.rooms.set_terms(id, opens.terms, opening);
                    town.rooms.extend(opens.terms.enabled.then_some(id));
                }
                if let Some(hall) = settings.inventory.hall() {
                    town.halls.insert(id, hall.rows().flat_map(|(_, _, seats)| seats.to_vec()).collect());
                }
                hub.auditor.stock.insert(id.0, stock(&settings.inventory));
                let day = if self.swarm.today { date(2026, 3, 2) } else { date(2026, 3, 4) };
                let hours = (0..self.swarm.slots).filter_map(|n| i8::try_from(18 + n).ok());
                slots.extend(hours.filter_map(|hour| SlotId::new(id, day, time(hour, 0, 0, 0))));
            }
        }
        for index in 0..self.swarm.processes {
            self.processes[index] = Some(Process::start(&self.hub, index, &self.swarm));
        }
        town.slots = slots;
        let town = Arc::new(town);
        for number in 0..self.swarm.guests {
            let dice = Dice::new(self.dice.bits());
            let comes = Duration::from_micros(100_000 + self.dice.between(0, self.swarm.rush));
            let guest = Guest::new(&self.hub, number, dice, town.clone());
            self.guests.handle().spawn(guest.live(comes, self.about.clone()));
        }
    }

    fn live(&mut self) {
        let (mut now, mut ends) = (0, LATEST);
        while now < ends {
            let next = lock(&self.hub).next_event().unwrap_or(u64::MAX);
            // Whole milliseconds: that is what timers know.
            now += next.saturating_sub(now).clamp(1_000, 8_000) / 1000 * 1000;
            self.go_wrong(now);
            lock(&self.hub).happen(now);
            self.tick(now);
            let hub = lock(&self.hub);
            let stop = !hub.auditor.violations.is_empty();
            drop(hub);
            if stop || PANICKED.with_borrow(Option::is_some) {
                return;
            }
            let about = *self.about.lock().unwrap_or_else(PoisonError::into_inner);
            if about == 0 && ends == LATEST {
                ends = now.max(FAULTS_END) + SETTLING;
            }
            if ends < now + 1_000_000 && ends < LATEST && self.goes_on() {
                ends = now + 2_000_000;
            }
        }
    }

    /// What a provider did not do is asked for again, later each time; and what is offered lapses, and is offered to the next.
    fn goes_on(&self) -> bool {
        let hub = lock(&self.hub);
        hub.rows.owes_outside() || hub.rows.has_holds(hub.wall())
    }

    fn tick(&mut self, now: u64) {
        let first = self.dice.count(0, self.processes.len() - 1);
        for at in 0..self.processes.len() {
            let index = (first + at) % self.processes.len();
            {
                let hub = lock(&self.hub);
                let seat = &hub.seats[index];
                seat.clock.store(hub.wall() + seat.skew, Ordering::SeqCst);
            }
            if self.until[index] > now {
                continue;
            }
            let slept = std::mem::take(&mut self.until[index]) > 0;
            match &self.processes[index] {
                Some(process) if slept => {
                    lock(&self.hub).auditor.woke(self.slept[index], now);
                    process.wake(now);
                }
                Some(_) => {}
                None => self.processes[index] = Some(Process::start(&self.hub, index, &self.swarm)),
            }
            if let Some(process) = &self.processes[index] {
                process.run_until(now);
            }
        }
        self.guests.run_until(now);
    }

    fn go_wrong(&mut self, now: u64) {
        if now >= FAULTS_END {
            let mut hub = lock(&self.hub);
            if std::mem::replace(&mut hub.faulty, false) {
                hub.seats.iter_mut().for_each(|seat| seat.skew = 0);
            }
        }
        while self.faults.last().is_some_and(|(at, _)| *at <= now) {
            let Some((_, fault)) = self.faults.pop() else { return };
            self.strike(now, fault);
        }
    }

    fn strike(&mut self, now: u64, fault: Fault) {
        let mut hub = lock(&self.hub);
        match fault {
            Fault::Crash(index) => {
                let seat = &mut hub.seats[index];
                (seat.app, seat.handle, seat.ears) = (None, None, None);
                let life = seat.life;
                seat.generation += 1;
                hub.auditor.ended.insert((index, life));
                hub.note(None, format!("p{index}.{life} dies"));
                drop(hub);
                drop(self.processes[index].take());
                self.until[index] = now + self.dice.between(100_000, 3_000_000);
            }
            Fault::Pause(index, length) => {
                if self.processes[index].is_some() {
                    hub.note(None, format!("p{index} sleeps for {} ms", length / 1000));
                    let awake = self.until[index] <= now;
                    self.slept[index] = if awake { now } else { self.slept[index] };
                    self.until[index] = now + length;
                }
            }
            Fault::Outage(length) => {
                hub.note(None, format!("Redis is away for {} ms", length / 1000));
                hub.lanes_away = now + length;
                hub.auditor.trouble(now);
                hub.reconnect();
            }
            Fault::Emptied(restarted) => {
                hub.note(None, format!("Redis is emptied{}", if restarted { " and restarted" } else { "" }));
                hub.lanes.clear();
                hub.auditor.redis_lost(now);
                if restarted {
                    hub.reconnect();
                }
            }
            Fault::Copy => {
                let copy = hub.lanes.clone();
                hub.copies.push(copy);
            }
            Fault::Failover => {
                if hub.copies.is_empty() {
                    return;
                }
                let back = self.dice.count(1, hub.copies.len().min(3));
                let at = hub.copies.len() - back;
                hub.note(None, "an older copy of Redis takes over".to_owned());
                hub.lanes = hub.copies[at].clone();
                hub.starts += 1;
                let name = hub.starts;
                hub.lanes.start_anew(name);
                hub.copies.truncate(at);
                hub.auditor.redis_lost(now);
                hub.reconnect();
            }
            Fault::StoreOutage(length) => {
                hub.note(None, format!("the database is away for {} ms", length / 1000));
                hub.rows_away = now + length;
            }
            Fault::ClockStep(index, by) => {
                hub.note(None, format!("the clock of p{index} is wrong by {by} ms"));
                hub.seats[index].skew = by;
                hub.auditor.skew = hub.auditor.skew.max(by.abs() + 3_000);
            }
            Fault::Change => self.change(&mut hub),
        }
    }

    /// Staff change a venue's size.
    fn change(&self, hub: &mut Hub) {
        let id = booking::VenueId(hub.dice.small(1, u32::try_from(self.swarm.venues.len()).unwrap_or(1)));
        let Some(venue) = hub.rows.venue(id) else { return };
        if let Some(opens) = self.swarm.rooms[usize::try_from(id.0 - 1).unwrap_or(0)].as_ref()
            && let Some(opening) = hub.rows.rooms.newest(id)
            && hub.dice.per_mille(500)
        {
            let mut terms = opening.terms;
            terms.size = hub.dice.small(1, 6);
            hub.note(None, format!("the room of venue {id} is now for {}", terms.size));
            let otherwise = self::opening(opens, &mut hub.dice.clone());
            hub.rows.rooms.set_terms(id, terms, otherwise);
            return;
        }
        let mut settings = venue.settings;
        if let Inventory::Places { capacity } = &mut settings.inventory {
            *capacity = hub.dice.small(1, 20);
        }
        hub.note(None, format!("venue {id} now has {:?}", settings.inventory));
        hub.auditor.stock.insert(id.0, stock(&settings.inventory));
        hub.rows.set_settings(id, venue.version, settings);
    }

    fn end(self, seed: u64) -> Outcome {
        let mut hub = lock(&self.hub);
        let about = *self.about.lock().unwrap_or_else(PoisonError::into_inner);
        let panicked = PANICKED.with_borrow_mut(Option::take);
        if let Some(panicked) = panicked {
            hub.auditor.violations.push((None, format!("a panic: {panicked}")));
        } else if hub.auditor.violations.is_empty() {
            if about > 0 {
                hub.auditor.violations.push((None, format!("{about} guests never came to an end")));
            }
            let wall = hub.wall();
            let Hub { auditor, rows, bank, .. } = &mut *hub;
            auditor.at_rest(wall, rows);
            auditor.nobody_waits_for_nothing(rows);
            auditor.money_is_where_it_should_be(bank, rows);
            rows.rooms.unserved(wall).into_iter().for_each(|what| auditor.violated(None, what));
            let findings = rows.audit_all(&[], auditor.options());
            findings.iter().for_each(|finding| auditor.found(None, finding));
            if hub.lanes.people() > 0 && hub.auditor.violations.is_empty() {
                let people = hub.lanes.people();
                hub.auditor.violations.push((None, format!("{people} people stand in lines of Redis")));
            }
        }
        let apps: Vec<_> = hub.seats.iter().filter_map(|seat| seat.app.clone()).collect();
        drop(hub);
        let waiting: usize = apps.iter().map(|app| app.desk.lines().0).sum();
        let mut hub = lock(&self.hub);
        if waiting > 0 && hub.auditor.violations.is_empty() {
            hub.auditor.violations.push((None, format!("{waiting} people stand in line")));
        }
        let outcome = Outcome {
            seed,
            hash: hub.trace.hash(),
            violations: std::mem::take(&mut hub.auditor.violations),
            lines: hub.trace.lines.take().unwrap_or_default(),
            decided: hub.auditor.decided,
            won: hub.auditor.won,
            guests: self.swarm.guests,
        };
        hub.end();
        drop(hub);
        drop((apps, self.processes, self.guests));
        seeded::begin(None);
        flaws::introduce(None);
        outcome
    }
}
