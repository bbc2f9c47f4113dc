//! A thousand slots, the n-th of them with a share of 1/n of the guests: hot and cold lines beside each other.

use rehearsal::Popularity;

use super::contender::{Contender, ROW_LOCK, SHARED, SPRING};
use super::running::{Crowd, Running, pace};
use super::stage::{Cast, Stage};
use super::{Table, compare, in_turn};
use crate::Result;
use crate::results::Report;
use crate::world::ENDLESS;

const CONTENDERS: [Contender; 4] = [SPRING, ROW_LOCK, Contender::Embedded, SHARED];
const SLOTS: usize = 1_000;

fn measured(running: &Running<'_>) -> Result<f64> {
    let (guests, connections) = match running.contender {
        Contender::Embedded | SHARED => (30_000, 1_024),
        ROW_LOCK => (8_000, 64),
        _ => (3_000, 64),
    };
    let days = SLOTS.div_ceil(24);
    let slots = (0..days).map(|_| running.fresh_day()).collect::<Result<Vec<_>>>()?;
    let mut slots: Vec<_> = slots.into_iter().flatten().collect();
    slots.truncate(SLOTS);
    let first = slots.first().cloned().ok_or("no slots")?;
    let crowd = Crowd::at_once(running.stage().many(guests), first, connections);
    let report = running.face(Crowd { slots, popularity: Popularity::Zipf(1.0), ..crowd })?;
    Ok(pace(&report))
}

/// Measures everybody.
pub fn run(stage: &Stage, report: &mut Report) -> Result<()> {
    let mut table = Table::new(&CONTENDERS, "1,000 slots, Zipf", "bookings/s");
    for round in 0..stage.rounds {
        eprintln!("slots, round {}", round + 1);
        for contender in in_turn(&CONTENDERS, round) {
            // The days that can be booked are used up by one round: everybody starts anew.
            let pace = Cast::new(stage, ENDLESS).with(contender, measured)?;
            table.push(contender, pace);
        }
    }
    compare(
        report,
        "1,000 slots: maitred, PostgreSQL + Redis against Spring",
        "×",
        table.ratio(SHARED, SPRING),
        None,
    );
    compare(report, "… against the row lock", "×", table.ratio(SHARED, ROW_LOCK), None);
    let embedded = table.ratio(Contender::Embedded, SPRING);
    compare(report, "1,000 slots: maitred embedded against Spring", "×", embedded, None);
    report.figures.extend(table.into_figures());
    Ok(())
}
