//! What kind of world a seed makes: how many of everything, and what goes wrong in it.

use booking::hall::{Row, Section};
use booking::policy::Policy;
use booking::room::{Order, Terms};
use booking::venue::{Inventory, Kind, Settings, Table, WeekTimes, Zone};
use booking::{Hall, Won};

use crate::dice::Dice;

/// One world's settings.
#[derive(Debug, Clone)]
pub struct Swarm {
    /// Server processes.
    pub processes: usize,
    /// Whether lines are shared.
    pub redis: bool,
    /// Venues.
    pub venues: Vec<Settings>,
    /// Slots that people want, of each venue.
    pub slots: u32,
    /// Guests.
    pub guests: usize,
    /// Within so many µs they come.
    pub rush: u64,
    /// The desk's bounds.
    pub batch: usize,
    /// Guests in a lane.
    pub bound: usize,
    /// Lanes run side by side.
    pub runners: usize,
    /// What goes wrong.
    pub faults: Faults,
    /// Whether slots are on the same day, so that refunds are partial.
    pub today: bool,
    /// The openings and waiting rooms of venues that have one, in the same order.
    pub rooms: Vec<Option<Opens>>,
    /// How long guests have at the payment provider, in seconds.
    pub at_provider: u32,
}

/// A sale that opens while the world lasts.
#[derive(Debug, Clone)]
pub struct Opens {
    /// How the room is run.
    pub terms: Terms,
    /// So many ms after the beginning.
    pub after: u64,
    /// How those who come before are ordered.
    pub order: Order,
}

/// What goes wrong, in times out of a thousand or in times at all.
#[derive(Debug, Clone, Default)]
pub struct Faults {
    /// Calls to the store whose request is lost.
    pub store_lost: u64,
    /// Calls whose reply is.
    pub store_silent: u64,
    /// Calls that the store refuses to do just now.
    pub store_failed: u64,
    /// Calls that take long.
    pub store_slow: u64,
    /// Messages between guests and servers that are lost.
    pub guests_lost: u64,
    /// Calls to Redis that are lost on either way.
    pub lanes_lost: u64,
    /// Calls to Redis that take long.
    pub lanes_slow: u64,
    /// Calls that are done twice.
    pub doubled: u64,
    /// Published messages that are lost.
    pub said_lost: u64,
    /// Crashes of a process.
    pub crashes: usize,
    /// Pauses of a process.
    pub pauses: usize,
    /// Redis is away for a while.
    pub outages: usize,
    /// Redis is emptied.
    pub emptied: usize,
    /// An older copy of Redis takes over.
    pub failovers: usize,
    /// The database is away for a while.
    pub store_outages: usize,
    /// A process's clock is set to another time.
    pub clock_steps: usize,
    /// Staff change the venue.
    pub changes: usize,
    /// Calls and events of the payment provider that are lost.
    pub bank_lost: u64,
    /// Calls and events that take long.
    pub bank_late: u64,
    /// Events that are sent several times at once.
    pub bank_repeats: u64,
    /// Payments that it does not take.
    pub bank_refuses: u64,
    /// Refunds that it does not make just now.
    pub bank_fails: u64,
}

impl Swarm {
    /// The settings of a seed.
    pub fn new(dice: &mut Dice) -> Self {
        let venues: Vec<_> = (0..dice.count(1, 3)).map(|_| venue(dice)).collect();
        let rooms = venues.iter().map(|_| dice.per_mille(250).then(|| opens(dice))).collect();
        Self {
            rooms,
            at_provider: dice.small(1, 8),
            processes: dice.count(1, 4),
            redis: dice.per_mille(700),
            venues,
            slots: dice.small(1, 3),
            guests: dice.count(6, 70),
            rush: dice.one_of(&[10_000, 1_000_000, 6_000_000, 12_000_000]),
            batch: dice.one_of(&[1, 2, 5, 50]),
            bound: dice.one_of(&[3, 20, 1000]),
            runners: dice.count(1, 3),
            faults: faults(dice),
            today: dice.per_mille(300),
        }
    }
}

fn faults(dice: &mut Dice) -> Faults {
    let calm = dice.per_mille(80);
    let mut some = |most: u64| if !calm && dice.per_mille(350) { dice.between(1, most) } else { 0 };
    let mut f = Faults {
        store_lost: some(60),
        store_silent: some(120),
        store_failed: some(120),
        store_slow: some(150),
        guests_lost: some(200),
        lanes_lost: some(40),
        lanes_slow: some(40),
        doubled: some(100),
        said_lost: some(500),
        ..Faults::default()
    };
    let mut times = |most: u64| usize::try_from(some(most)).unwrap_or(0);
    f.crashes = times(4);
    f.pauses = times(4);
    f.outages = times(2);
    f.emptied = times(2);
    f.failovers = times(2);
    f.store_outages = times(2);
    f.clock_steps = times(3);
    f.changes = times(3);
    f.bank_lost = some(300);
    f.bank_late = some(400);
    f.bank_repeats = some(600);
    f.bank_refuses = some(150);
    f.bank_fails = some(900);
    f
}

fn opens(dice: &mut Dice) -> Opens {
    let terms = Terms {
        enabled: dice.per_mille(900),
        size: dice.small(1, 6),
        idle_seconds: dice.small(1, 4),
        total_seconds: dice.small(3, 10),
    };
    let order = if dice.per_mille(500) { Order::Draw } else { Order::Arrival };
    Opens { terms, after: dice.between(0, 8_000), order }
}

fn hall(dice: &mut Dice) -> Hall {
    let mut section = |name: &str, price| {
        let rows = (1..=dice.small(1, 2)).map(|n| Row { name: n.to_string(), seats: dice.small(1, 6) });
        Section { name: name.into(), price: Won(price), rows: rows.collect() }
    };
    vec![section("A", 10_000), section("B", 5_000)].into()
}

fn venue(dice: &mut Dice) -> Settings {
    let inventory = match dice.between(0, 11) {
        0..5 => Inventory::Places { capacity: dice.small(1, 20) },
        5..8 => Inventory::Seats { sections: hall(dice) },
        8..10 => Inventory::Tables {
            tables: (1..=dice.small(1, 6)).map(|number| Table { number, seats: dice.small(1, 6) }).collect(),
        },
        _ => Inventory::Exclusive,
    };
    let policy = Policy {
        deposit_per_person: Won(5_000),
        hold_seconds: dice.small(2, 7),
        offer_seconds: dice.small(1, 6),
        refunds_by_staff: dice.per_mille(250),
        ..Policy::default()
    };
    Settings {
        name: "Venue".into(),
        kind: Kind::Restaurant,
        inventory,
        // A name of the bundled database.
        time_zone: Zone::named("Asia/Seoul").unwrap_or_else(|| unreachable!("bundled")),
        times: WeekTimes::daily(0, 23),
        shows: vec![],
        book_ahead_days: 60,
        requests_per_second: dice.per_mille(200).then(|| dice.small(2, 30)),
        policy,
    }
}
