//! One slot that never sells out: bookings a second, and what the limits are.
//!
//! The same crowd comes to everybody at once, over so many connections that the server is never idle, and leaves after some
//! seconds, served or not. How many connections suit a contender best is tried in the first round with a small crowd, and
//! kept. Whoever sums up a slot's reservations is slower the more it has sold, so that the small crowd shows what they do
//! on an empty slot.

use std::collections::BTreeMap;
use std::time::Duration;

use rehearsal::Outcome;

use super::contender::{Contender, ROW_LOCK, SHARED, SPRING};
use super::running::{Crowd, Running, pace};
use super::stage::{Cast, Stage};
use super::{Table, compare, in_turn};
use crate::Result;
use crate::limits::{batched_inserts, trivial_scripts};
use crate::plot::{Bar, Bars, Kind};
use crate::results::{Aim, Figure, Report, number};
use crate::row_lock::Tally;
use crate::world::ENDLESS;

const CONTENDERS: [Contender; 9] = [
    SPRING,
    Contender::FairLock { virtual_threads: true },
    Contender::Admission,
    ROW_LOCK,
    Contender::RowLock(Tally::Kept),
    Contender::Embedded,
    SHARED,
    Contender::Shared(3),
    Contender::Constant,
];
/// Everybody's crowd: for maitred some seconds' worth.
const GUESTS: u32 = 50_000;
/// When it leaves.
const OVER: Duration = Duration::from_secs(8);
/// Rows that `pgbench` inserts.
const ROWS: u64 = 51_200;
/// Calls that `redis-benchmark` makes.
const CALLS: u64 = 100_000;

/// What each can do at most, as far as it was measured.
#[derive(Debug, Default)]
pub struct Peaks {
    found: BTreeMap<Contender, f64>,
}

impl Peaks {
    /// The bookings a second of a contender; measured now if nobody has.
    pub fn of(&mut self, stage: &Stage, contender: Contender) -> Result<f64> {
        if let Some(peak) = self.found.get(&contender) {
            return Ok(*peak);
        }
        let best = Cast::new(stage, ENDLESS).with(contender, |running| Ok(best_of(running)?.1))?;
        self.found.insert(contender, best);
        Ok(best)
    }
}

/// Connections that may suit a contender best.
fn connections(contender: Contender) -> &'static [usize] {
    match contender {
        Contender::Embedded | Contender::Shared(_) => &[256, 1_024, 2_048],
        Contender::Constant => &[256, 1_024],
        _ => &[32, 128, 384],
    }
}

/// How many guests show which number suits best: a second's worth or two.
fn few(contender: Contender) -> u32 {
    match contender {
        Contender::FairLock { .. } | Contender::Admission => 500,
        Contender::RowLock(_) => 1_500,
        _ => 15_000,
    }
}

fn measured(running: &Running<'_>, guests: u32, connections: usize) -> Result<f64> {
    let slot = running.fresh_slot()?;
    let crowd = Crowd { patience: OVER, ..Crowd::at_once(running.stage().many(guests), slot, connections) };
    let report = running.face(crowd)?;
    let seated = report.count(Outcome::Seated);
    let (name, of) = (running.contender.name(), report.guests);
    eprintln!("  {name}, {connections} connections: {seated} of {of}, {}/s", number(pace(&report)));
    if seated < of {
        if running.contender.is_maitred() {
            running
                .stage()
                .remark(format!("{name}: {seated} of {of} on the hot slot, {:?}", report.outcomes));
        }
        running.quiet()?;
    }
    Ok(pace(&report))
}

/// The number of connections that suits a contender best, and what it does with them on an empty slot.
fn best_of(running: &Running<'_>) -> Result<(usize, f64)> {
    let mut best = (0, 0.0);
    for connections in connections(running.contender) {
        let pace = measured(running, few(running.contender), *connections)?;
        if pace > best.1 {
            best = (*connections, pace);
        }
    }
    Ok(best)
}

/// Measures everybody.
pub fn run(stage: &Stage, report: &mut Report) -> Result<Peaks> {
    let mut table = Table::new(&CONTENDERS, "hot slot", "bookings/s");
    let mut rows = Figure::new("limit: pgbench, batches of 256", "rows/s");
    let mut calls = Figure::new("limit: Redis, a script that does nothing", "calls/s");
    let (mut cast, mut suits) = (Cast::new(stage, ENDLESS), BTreeMap::new());
    for round in 0..stage.rounds {
        eprintln!("hot slot, round {}", round + 1);
        for contender in in_turn(&CONTENDERS, round) {
            let pace = cast.with(contender, |running| {
                let (connections, _) = match suits.get(&contender) {
                    Some(suits) => *suits,
                    None => *suits.entry(contender).or_insert(best_of(running)?),
                };
                measured(running, GUESTS, connections)
            })?;
            table.push(contender, pace);
        }
        let scale = if stage.quick { 10 } else { 1 };
        rows.rounds.push(batched_inserts(&stage.world, 256, ROWS / scale)?);
        calls.rounds.push(trivial_scripts(&stage.world.redis, CALLS / scale)?);
    }
    for (contender, (connections, pace)) in &suits {
        let (name, few, pace) = (contender.name(), number(few(*contender).into()), number(*pace));
        stage.remark(format!(
            "{name}: {connections} connections suit it best; {pace}/s with {few} guests on an empty slot"
        ));
    }
    conclude(&table, &rows, report);
    draw(stage, &table, &rows)?;
    let peak = |(contender, figure): &(Contender, Figure)| Some((*contender, figure.spread()?.median));
    let found = table.rows.iter().filter_map(peak).collect();
    report.figures.extend(table.into_figures());
    report.figures.extend([rows, calls]);
    Ok(Peaks { found })
}

fn conclude(table: &Table, rows: &Figure, report: &mut Report) {
    let spring = "hot slot: maitred, PostgreSQL + Redis against Spring + Redisson fair lock";
    compare(report, spring, "×", table.ratio(SHARED, SPRING), Some(Aim::AtLeast(30.0)));
    let with_virtual = table.ratio(SHARED, Contender::FairLock { virtual_threads: true });
    compare(report, "… on virtual threads", "×", with_virtual, Some(Aim::AtLeast(30.0)));
    compare(report, "… with limiter, semaphore, claim", "×", table.ratio(SHARED, Contender::Admission), None);
    compare(report, "… against the row lock", "×", table.ratio(SHARED, ROW_LOCK), Some(Aim::AtLeast(20.0)));
    let kept = table.ratio(SHARED, Contender::RowLock(Tally::Kept));
    compare(report, "… against the row lock with a count kept", "×", kept, None);
    let of_rows = table.of(SHARED).and_then(|figure| figure.against(rows));
    compare(report, "… against pgbench, batches of 256", "×", of_rows, Some(Aim::AtLeast(0.25)));
    compare(report, "… against a constant answer", "×", table.ratio(SHARED, Contender::Constant), None);
    let three = table.ratio(Contender::Shared(3), SPRING);
    compare(report, "hot slot: the same on three processes against Spring", "×", three, None);
    let embedded = table.ratio(Contender::Embedded, SPRING);
    compare(report, "hot slot: maitred embedded against Spring", "×", embedded, None);
}

fn draw(stage: &Stage, table: &Table, rows: &Figure) -> Result<()> {
    let bar = |name: &str, kind, figure: &Figure| {
        let beside = match (kind, figure.against(table.of(SPRING)?)) {
            (Kind::Ours, Some(times)) => format!("{} × Spring", number(times.median)),
            _ => String::new(),
        };
        Some(Bar { name: name.into(), kind, value: figure.spread()?, beside })
    };
    let contenders = table.rows.iter().filter(|(contender, _)| *contender != Contender::Constant);
    let mut bars: Vec<_> =
        contenders.filter_map(|(who, figure)| bar(who.name(), who.kind(), figure)).collect();
    bars.extend(bar("pgbench, batches of 256", Kind::Limit, rows));
    let constant = table.of(Contender::Constant);
    bars.extend(constant.and_then(|figure| bar("HTTP with a constant answer", Kind::Limit, figure)));
    let title = "Bookings on one hot slot".into();
    let subtitle = "a second, over HTTP; whiskers: lowest and highest round".into();
    stage.write("throughput.svg", &Bars { title, subtitle, bars }.to_svg())
}
