//! What only a simulation can see: who was answered what and when, what there was at every instant, what true time it was, and
//! when Redis was in trouble. What rows and logs tell by themselves is for `crates/audit`, which is asked after every commit
//! and at the end. Neither shares code with the rules.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use audit::{Finding, Options};

use crate::bank::Bank;
use crate::rows::Rows;

/// A reservation, as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Which.
    pub id: u128,
    /// Where.
    pub slot: i64,
    /// Whose.
    pub person: u128,
    /// Its state by name.
    pub status: &'static str,
    /// How many come.
    pub party: u32,
    /// Their table.
    pub table: Option<u32>,
    /// Their seats.
    pub seats: Vec<String>,
    /// What it costs.
    pub price: i64,
    /// What was paid.
    pub paid: i64,
    /// What of that came back.
    pub refunded: i64,
    /// What will.
    pub refund_due: i64,
    /// Until when it must be paid, in ms since 1970.
    pub expires_at: i64,
    /// The place in line that won it.
    pub ticket: u128,
}

/// A line of the decision log.
#[derive(Debug, Clone)]
pub struct Line {
    /// The ticket: id, epoch, number.
    pub ticket: Option<(u128, u32, u64)>,
    /// Whose wish.
    pub person: u128,
    /// What.
    pub verdict: &'static str,
    /// For how many.
    pub party: u32,
    /// About which reservation.
    pub reservation: Option<u128>,
    /// Why not.
    pub refused: Option<String>,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((_, epoch, number)) = self.ticket {
            write!(f, "#{epoch}.{number} ")?;
        }
        write!(f, "{} by g{} for {}", self.verdict, self.person, self.party)?;
        if let Some(refused) = &self.refused {
            write!(f, " refused {refused}")?;
        }
        match self.reservation {
            Some(id) => write!(f, " (r{:x})", id & 0xFFFF_FFFF),
            None => Ok(()),
        }
    }
}

/// A batch that was stored.
#[derive(Debug, Clone)]
pub struct Committed {
    /// Which slot.
    pub slot: i64,
    /// Whose.
    pub venue: u32,
    /// The slot's version since.
    pub version: u64,
    /// New reservations.
    pub new: Vec<Row>,
    /// Changed ones.
    pub changed: Vec<Row>,
    /// The log.
    pub lines: Vec<Line>,
    /// Whether anybody was on the waitlist, or is.
    pub listed: bool,
    /// Who was inside the venue's waiting room, and whether that ended with this.
    pub finished: BTreeMap<u128, bool>,
}

/// What a venue has in each slot.
#[derive(Debug, Clone)]
pub enum Stock {
    /// So many people.
    Places(u32),
    /// One party.
    One,
    /// Tables by number, with their seats.
    Tables(BTreeMap<u32, u32>),
    /// Rows of seats by their labels.
    Hall(Vec<Vec<String>>),
}

impl Stock {
    /// Whether a party of this size fits beside these.
    fn has_room(&self, party: u32, live: &[&Row]) -> bool {
        match self {
            Self::Places(capacity) => live.iter().map(|row| row.party).sum::<u32>() + party <= *capacity,
            Self::One => live.is_empty(),
            Self::Tables(seats) => {
                let mut tables = seats.iter().filter(|(_, seats)| **seats >= party);
                tables.any(|(table, _)| live.iter().all(|row| row.table != Some(*table)))
            }
            Self::Hall(rows) => {
                let taken = |seat: &String| live.iter().any(|row| row.seats.contains(seat));
                let together = |row: &Vec<String>| row.split(taken).map(<[String]>::len).max().unwrap_or(0);
                rows.iter().any(|row| together(row) >= usize::try_from(party).unwrap_or(usize::MAX))
            }
        }
    }
}

/// A request that was given a place in line.
#[derive(Debug, Clone)]
pub struct Taken {
    /// When it was asked for, in µs.
    pub invoked: u64,
    /// When the place was known, in µs.
    pub known: u64,
    /// When it entered, by the clock of its process, in ms since 1970.
    pub entered_at: i64,
    /// Which process, in which life.
    pub process: (usize, u32),
    /// Who.
    pub person: u128,
    /// Where.
    pub slot: i64,
    /// What.
    pub verdict: &'static str,
    /// In which life of the line.
    pub epoch: u32,
    /// With which key.
    pub key: Option<(u128, String)>,
    /// The seats that were named.
    pub seats: Vec<String>,
}

/// An answer about a ticket, as it left a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    /// What the log says of the ticket in it, in this batch.
    Decided {
        /// The ticket that was decided.
        ticket: u128,
        /// The reservation.
        reservation: Option<u128>,
        /// Why not.
        refused: Option<String>,
        /// The slot's version since.
        batch: u64,
    },
    /// The person has left.
    Left,
    /// The key was used for something else.
    KeyMismatch,
    /// An error of ours.
    Failed,
}

struct Logged {
    reservation: Option<u128>,
    refused: Option<String>,
    version: u64,
    at: u64,
}

/// The auditor.
#[derive(Default)]
pub struct Auditor {
    shared: bool,
    /// When a process was without Redis, or Redis lost something, in µs: whoever stood in line then may be decided out of turn, or
    /// by a process that cannot know that they have left or stand elsewhere too.
    troubles: Vec<u64>,
    /// When Redis lost something.
    losses: Vec<u64>,
    /// By how much a clock may be wrong, in ms.
    pub skew: i64,
    /// What venues have.
    pub stock: BTreeMap<u32, Stock>,
    rows: BTreeMap<u128, Row>,
    of_slot: BTreeMap<i64, BTreeSet<u128>>,
    log: BTreeMap<u128, Logged>,
    taken: BTreeMap<u128, Taken>,
    told: BTreeMap<u128, Told>,
    by_key: BTreeMap<(u128, String), Told>,
    /// Who was taken out of a shared line.
    pub left: BTreeSet<u128>,
    leases: BTreeMap<Box<str>, (Box<str>, u64)>,
    /// Processes' lives that ended.
    pub ended: BTreeSet<(usize, u32)>,
    /// How much happened.
    pub decided: usize,
    /// Reservations won.
    pub won: usize,
    /// What must not have happened, and in which slot.
    pub violations: Vec<(Option<i64>, String)>,
}

const LEASE: u64 = 2_000_000;
/// For so long after it was in trouble a process may still have lines of its own, in µs.
const APART: u64 = 3_000_000;

fn holds(status: &str) -> bool {
    matches!(status, "TEMPORARY" | "CONFIRMED" | "PREPAY_CONFIRM" | "REFUND_PENDING")
}

impl Auditor {
    /// An auditor of a world with or without shared lines.
    pub fn new(shared: bool) -> Self {
        Self { shared, ..Self::default() }
    }

    /// Something must not have happened.
    pub fn violated(&mut self, slot: Option<i64>, what: String) {
        if self.violations.len() < 10 {
            self.violations.push((slot, what));
        }
    }

    /// A batch was stored.
    pub fn committed(&mut self, now: u64, wall: i64, batch: Committed) {
        let slot = Some(batch.slot);
        let before: Vec<Row> = self.in_slot(batch.slot).cloned().collect();
        let taken_before: u32 = before.iter().filter(|row| holds(row.status)).map(|row| row.party).sum();
        for row in &batch.changed {
            let expired = self.rows.get(&row.id).is_some_and(|old| old.status != row.status);
            if expired && row.status == "EXPIRED" && row.expires_at > wall + self.skew {
                self.violated(slot, format!("a hold ran out {} ms early", row.expires_at - wall));
            }
            self.put(row);
        }
        for row in &batch.new {
            self.won += 1;
            self.put(row);
        }
        self.check_stock(&batch, taken_before);
        self.check_refusals(&batch, before);
        self.check_tokens(&batch);
        for line in &batch.lines {
            self.check_line(now, &batch, line);
        }
    }

    fn put(&mut self, row: &Row) {
        if let Some(old) = self.rows.insert(row.id, row.clone()) {
            self.of_slot.entry(old.slot).or_default().remove(&row.id);
        }
        self.of_slot.entry(row.slot).or_default().insert(row.id);
    }

    fn in_slot(&self, slot: i64) -> impl Iterator<Item = &Row> {
        self.of_slot.get(&slot).into_iter().flatten().filter_map(|id| self.rows.get(id))
    }

    /// Capacity, by what the venue had just then.
    fn check_stock(&mut self, batch: &Committed, taken_before: u32) {
        let slot = Some(batch.slot);
        let held: Vec<Row> = self.in_slot(batch.slot).filter(|row| holds(row.status)).cloned().collect();
        let taken: u32 = held.iter().map(|row| row.party).sum();
        match self.stock.get(&batch.venue).cloned() {
            // A venue that made itself smaller keeps whom it has.
            Some(Stock::Places(capacity)) if taken > capacity && taken > taken_before => {
                self.violated(slot, format!("{taken} of {capacity} places are sold"));
            }
            Some(Stock::One) if held.len() > 1 => {
                self.violated(slot, format!("{} parties at a time", held.len()));
            }
            Some(Stock::Tables(seats)) => {
                for row in batch.new.iter().filter(|row| holds(row.status)) {
                    let fits = row.table.and_then(|table| seats.get(&table)).is_some_and(|s| *s >= row.party);
                    if !fits {
                        self.violated(slot, format!("{} people at table {:?}", row.party, row.table));
                    }
                }
            }
            _ => {}
        }
    }

    /// Whoever has paid has finished in the waiting room, in the same commit; nobody else has.
    fn check_tokens(&mut self, batch: &Committed) {
        let pays = |line: &&Line| line.refused.is_none() && ["pay", "paid", "reseat"].contains(&line.verdict);
        let made: BTreeSet<u128> = batch.new.iter().chain(&batch.changed).map(|row| row.id).collect();
        let paid = batch.lines.iter().filter(pays).filter_map(|line| line.reservation);
        let paid = paid.filter(|id| made.contains(id)).filter_map(|id| self.rows.get(&id));
        let payers: BTreeSet<u128> = paid.map(|row| row.person).collect();
        for (person, finished) in &batch.finished {
            if payers.contains(person) != *finished {
                let what =
                    if *finished { "has finished without paying" } else { "has paid, and has not finished" };
                self.violated(Some(batch.slot), format!("g{person} {what} in the waiting room"));
            }
        }
    }

    /// Nobody is refused what is free.
    fn check_refusals(&mut self, batch: &Committed, before: Vec<Row>) {
        let mut held: BTreeMap<u128, Row> =
            before.into_iter().filter(|row| holds(row.status)).map(|row| (row.id, row)).collect();
        let stock = self.stock.get(&batch.venue).cloned();
        let mut fresh: BTreeSet<u128> = batch.new.iter().map(|row| row.id).collect();
        for line in &batch.lines {
            let Some(refused) = &line.refused else {
                let Some(row) = line.reservation.and_then(|id| self.rows.get(&id)).cloned() else { continue };
                // A wish that stood in line twice is done once, and may have been changed since.
                if matches!(line.verdict, "book" | "reseat") && !fresh.remove(&row.id) {
                    continue;
                }
                if matches!(line.verdict, "unpaid" | "given-back" | "start-payment" | "join") {
                    continue;
                }
                let frees = ["cancel", "expire", "complete", "no-show", "refund", "returned"];
                let frees = frees.contains(&line.verdict);
                if !holds(row.status) && frees || row.slot != batch.slot {
                    held.remove(&row.id);
                } else if !frees {
                    held.insert(row.id, Row { party: line.party, ..row });
                }
                continue;
            };
            let Some(taken) = line.ticket.and_then(|(id, ..)| self.taken.get(&id)) else { continue };
            // Guests are judged by when the draw was asked for, and Redis may take a second to draw.
            let slack = if self.shared { self.skew + 1_000 } else { self.skew };
            let asked = crate::hub::BEGINNING + i64::try_from(taken.invoked / 1000).unwrap_or(0) - slack;
            let live = held.values().filter(|row| row.status != "TEMPORARY" || row.expires_at > asked);
            let live: Vec<&Row> = live.collect();
            let lacked = ["NotEnoughPlaces", "TableUnavailable", "SeatTaken"];
            let lacked = lacked.iter().any(|code| refused.starts_with(code));
            // What is left may be kept for those who wait: whether it was is for the replay to say.
            let room = match &stock {
                Some(stock) if lacked && line.verdict == "book" && !batch.listed => {
                    match taken.seats.as_slice() {
                        [] => stock.has_room(line.party, &live),
                        named => named.iter().all(|seat| live.iter().all(|row| !row.seats.contains(seat))),
                    }
                }
                _ => false,
            };
            let alone = refused == "AlreadyBooked" && live.iter().all(|row| row.person != line.person);
            if room || alone {
                let held = live.iter().map(|row| format!("r{:x} of {}", row.id & 0xFFFF_FFFF, row.party));
                let held: Vec<_> = held.collect();
                let why = if room { "there was room" } else { "it has no place" };
                let what = format!("{line}, although {why}: {stock:?} and {}", held.join(", "));
                self.violated(Some(batch.slot), what);
            }
        }
    }

    /// In time, and nobody who has left.
    fn check_line(&mut self, now: u64, batch: &Committed, line: &Line) {
        let slot = Some(batch.slot);
        self.decided += 1;
        let Some((ticket, epoch, number)) = line.ticket else { return };
        let left = self.told.get(&ticket) == Some(&Told::Left);
        if left && line.refused.is_none() && !self.was_in_trouble(ticket) {
            self.violated(slot, format!("#{epoch}.{number} had left, and was decided: {line}"));
        }
        if let (Some(taken), "pay", None) = (self.taken.get(&ticket), line.verdict, &line.refused)
            && let Some(row) = line.reservation.and_then(|id| self.rows.get(&id))
            && taken.entered_at >= row.expires_at
        {
            let late = taken.entered_at - row.expires_at;
            self.violated(slot, format!("#{epoch}.{number} paid {late} ms after the deadline"));
        }
        let (reservation, refused) = (line.reservation, line.refused.clone());
        self.log.entry(ticket).or_insert(Logged { reservation, refused, version: batch.version, at: now });
    }

    /// Somebody has a place in line.
    pub fn in_line(&mut self, ticket: u128, taken: Taken) {
        if taken.verdict == "book" && !self.taken.contains_key(&ticket) {
            // One live request a person and slot, in lines that are kept together.
            let another = self.taken.iter().find(|(id, other)| {
                let same =
                    other.person == taken.person && other.slot == taken.slot && other.verdict == "book";
                // A process that was in trouble has lines of its own until it has its place beside the others again.
                let in_redis = |one: &Taken| self.shared && one.epoch.is_multiple_of(2);
                let together = in_redis(other) && in_redis(&taken) || other.process == taken.process;
                let lived = self.log.get(id).is_none_or(|logged| logged.at > taken.known);
                let gone = self.told.contains_key(id) || self.left.contains(id);
                let stands = lived && !gone && !self.ended.contains(&other.process);
                let calm = !self.in_trouble(self.about_since(other), taken.known);
                same && together && stands && calm && other.known < taken.invoked
            });
            if let Some((_, another)) = another {
                let what = format!(
                    "g{} stands in line twice: since {} ms, and since {} ms",
                    taken.person,
                    another.known / 1000,
                    taken.known / 1000
                );
                self.violated(Some(taken.slot), what);
            }
        }
        self.taken.entry(ticket).or_insert(taken);
    }

    /// An answer leaves a process; with the key of the request, if it had one.
    pub fn told(&mut self, ticket: u128, slot: i64, told: Told, key: Option<(u128, String)>) {
        if let Told::Decided { ticket: decided, reservation, refused, batch } = &told {
            let matches = self.log.get(decided).is_some_and(|logged| {
                let same = logged.reservation == *reservation || reservation.is_none();
                same && logged.refused == *refused && logged.version == *batch
            });
            // Whoever joins or leaves a waitlist is told of no reservation.
            let there = reservation.is_none_or(|id| self.rows.contains_key(&id));
            if !matches || !there {
                let what = format!("answered {told:?}, which is not what is stored");
                self.violated(Some(slot), what);
            }
        }
        let lost = self.losses.last().is_some_and(|at| self.since(ticket) <= *at);
        if told == Told::Failed && !lost {
            self.violated(Some(slot), "an error of ours was answered".to_owned());
        }
        let won = self.log.get(&ticket).is_some_and(|logged| logged.refused.is_none());
        if told == Told::Left && won && !self.in_trouble(self.since(ticket), u64::MAX) {
            self.violated(Some(slot), "told that it has left, after it was decided".to_owned());
        }
        if let (Some(key), Told::Decided { .. }) = (key, &told) {
            let before = self.by_key.entry(key).or_insert_with(|| told.clone());
            if *before != told {
                let what = format!("the same key was answered {before:?} and {told:?}");
                self.violated(Some(slot), what);
            }
        }
        self.told.entry(ticket).or_insert(told);
    }

    /// A client runs a lane from now on.
    pub fn runs(&mut self, lane: &str, client: &str, now: u64) {
        let other =
            self.leases.get(lane).filter(|(runner, until)| **runner != *client && *until > now).cloned();
        if let Some((runner, _)) = other {
            self.violated(lane.parse().ok(), format!("{client} runs a lane that {runner} runs"));
        }
        self.leases.insert(lane.into(), (client.into(), now + LEASE));
    }

    /// A client still runs a lane.
    pub fn still_runs(&mut self, lane: &str, client: &str, now: u64) {
        if let Some((_, until)) = self.leases.get_mut(lane).filter(|(runner, _)| **runner == *client) {
            *until = now + LEASE;
        }
    }

    /// A client runs a lane no more.
    pub fn rests(&mut self, lane: &str, client: &str) {
        if self.leases.get(lane).is_some_and(|(runner, _)| **runner == *client) {
            self.leases.remove(lane);
        }
    }

    /// Redis is another, or has forgotten.
    pub fn redis_lost(&mut self, now: u64) {
        self.trouble(now);
        self.losses.push(now);
        self.leases.clear();
    }

    /// A process is without Redis, or Redis has lost something.
    pub fn trouble(&mut self, now: u64) {
        self.troubles.push(now);
    }

    /// A process wakes: if it was in trouble when it fell asleep, then it still is.
    pub fn woke(&mut self, slept: u64, now: u64) {
        if self.in_trouble(slept.saturating_sub(APART), slept) {
            self.trouble(now);
        }
    }

    fn in_trouble(&self, from: u64, to: u64) -> bool {
        self.troubles.iter().rev().any(|at| (from..=to).contains(at))
    }

    /// Since when a ticket may have been in trouble: a process that was goes on by itself for a while.
    fn since(&self, ticket: u128) -> u64 {
        // A process that has a line of its own beside the shared one is in trouble.
        let shared = |taken: &&Taken| !self.shared || taken.epoch.is_multiple_of(2);
        self.taken.get(&ticket).filter(shared).map_or(0, |taken| taken.invoked.saturating_sub(APART))
    }

    /// Whether Redis was in trouble while this one was in line.
    fn was_in_trouble(&self, ticket: u128) -> bool {
        self.in_trouble(self.since(ticket), self.log.get(&ticket).map_or(u64::MAX, |logged| logged.at))
    }

    /// Since when a person who now stands in a slot's line may have been in it: with a request of a life that Redis lost, whose
    /// end sets the person free although another came after it.
    fn about_since(&self, other: &Taken) -> u64 {
        let own = self.taken.iter().filter(|(_, own)| own.person == other.person && own.slot == other.slot);
        let still = own.filter(|(id, _)| self.log.get(id).is_none_or(|logged| logged.at >= other.invoked));
        let first = still.map(|(_, own)| own.invoked).min().unwrap_or(other.invoked);
        first.saturating_sub(APART)
    }

    /// How `crates/audit` is to judge just now.
    pub fn options(&self) -> Options {
        Options { skew: self.skew, ..Options::default() }
    }

    /// What `crates/audit` found.
    pub fn found(&mut self, slot: Option<i64>, finding: &Finding) {
        let excused = match finding {
            Finding::OutOfOrder { ticket, .. } | Finding::Overtaken { ticket, .. } => {
                self.was_in_trouble(ticket.0)
            }
            _ => false,
        };
        if !excused {
            self.violated(slot, finding.to_string());
        }
    }

    /// Nothing goes wrong any more and everybody has gone home.
    pub fn at_rest(&mut self, wall: i64, rows: &Rows) {
        let late: Vec<_> = self.rows.values().cloned().collect();
        for row in late {
            if row.status == "TEMPORARY" && row.expires_at + self.skew < wall - 5_000 {
                let late = wall - row.expires_at;
                self.violated(Some(row.slot), format!("a hold is there {late} ms after its deadline"));
            }
        }
        let lost: Vec<_> = self.taken.iter().filter(|(id, taken)| self.is_lost(**id, taken, rows)).collect();
        let lost: Vec<_> = lost.into_iter().map(|(_, taken)| taken.clone()).collect();
        for taken in lost {
            let what = format!(
                "g{} asked p{} to {} at {} ms and was never decided",
                taken.person,
                taken.process.0,
                taken.verdict,
                taken.invoked / 1000
            );
            self.violated(Some(taken.slot), what);
        }
    }

    /// Nobody waits for what is free, unless it is kept for somebody before them.
    pub fn nobody_waits_for_nothing(&mut self, rows: &Rows) {
        for (slot, list) in rows.waits() {
            let stock = rows.venue_of(slot).and_then(|venue| self.stock.get(&venue)).cloned();
            let Some(stock) = stock else { continue };
            let live: Vec<&Row> = self.in_slot(slot).filter(|row| holds(row.status)).collect();
            let kept = list.iter().position(|(.., passed)| *passed >= 5).unwrap_or(list.len());
            let fits = list.iter().take(kept + 1).find(|(_, party, _)| stock.has_room(*party, &live));
            if let Some((person, party, _)) = fits {
                let what = format!("g{person} waits for {party} places, and there is room: {stock:?}");
                self.violated(Some(slot), what);
            }
        }
    }

    /// What the provider has taken pays for something or has come back, and nobody is mistaken about it.
    pub fn money_is_where_it_should_be(&mut self, bank: &Bank, rows: &Rows) {
        let written = rows.money_outside();
        for (id, taken, returned) in bank.taken() {
            let (captured, given, due) = written.get(&id).copied().unwrap_or_default();
            if (captured, given) != (taken, returned) || due > 0 {
                let what = format!(
                    "the provider has taken {taken} for {id} and returned {returned}; written down are {captured} and \
                     {given}, and {due} are due"
                );
                self.violated(None, what);
            }
        }
    }

    fn is_lost(&self, ticket: u128, taken: &Taken, rows: &Rows) -> bool {
        // Whoever left has left, heard or unheard; whoever came again with a key has the answer that the key has.
        let over = self.log.contains_key(&ticket)
            || self.told.contains_key(&ticket)
            || self.left.contains(&ticket)
            || taken.key.as_ref().is_some_and(|key| rows.has_key(key));
        // Lines of a process die with it; those of Redis do not, unless Redis has lost them and nobody was left to tell.
        let outlives =
            self.shared && taken.epoch.is_multiple_of(2) && !self.in_trouble(taken.invoked, u64::MAX);
        !over && (outlives || !self.ended.contains(&taken.process))
    }
}
