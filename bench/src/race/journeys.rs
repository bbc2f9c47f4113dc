//! Everything that a guest does: books, and then most pay and some cancel.

use rehearsal::Outcome;

use super::contender::{Contender, ROW_LOCK, SHARED, SPRING};
use super::running::{Crowd, Running};
use super::stage::{Cast, Stage};
use super::{Table, compare, in_turn};
use crate::Result;
use crate::results::Report;
use crate::world::ENDLESS;

const CONTENDERS: [Contender; 4] = [SPRING, ROW_LOCK, Contender::Embedded, SHARED];
const PAY: f64 = 0.6;
const CANCEL: f64 = 0.2;

/// Guests a second from the first press of the button to the last payment or cancellation.
fn measured(running: &Running<'_>) -> Result<f64> {
    // One connection in twenty is kept for those who pay; the generator sees to it that they need not wait for the crowd.
    let (guests, connections) = match running.contender {
        Contender::Embedded | SHARED => (20_000, 2_048),
        ROW_LOCK => (2_000, 128),
        _ => (1_000, 64),
    };
    let crowd = Crowd::at_once(running.stage().many(guests), running.fresh_slot()?, connections);
    let report = running.face(Crowd { pay: PAY, cancel: CANCEL, ..crowd })?;
    let (seated, paid) = (report.count(Outcome::Seated), report.paid);
    let name = running.contender.name();
    eprintln!("  {name}: {seated} of {} booked, {paid} paid", report.guests);
    // Who pays is left to chance, but not that much.
    if seated < report.guests || (paid as f64) < 0.8 * PAY * seated as f64 {
        running.stage().remark(format!("{name}, journeys: {:?}, {paid} paid", report.outcomes));
    }
    Ok(seated as f64 / report.over_after)
}

/// Measures everybody.
pub fn run(stage: &Stage, report: &mut Report) -> Result<()> {
    let mut table = Table::new(&CONTENDERS, "book, pay (60 %), cancel (20 %) on one slot", "journeys/s");
    let mut cast = Cast::new(stage, ENDLESS);
    for round in 0..stage.rounds {
        eprintln!("journeys, round {}", round + 1);
        for contender in in_turn(&CONTENDERS, round) {
            let pace = cast.with(contender, measured)?;
            table.push(contender, pace);
        }
    }
    compare(
        report,
        "journeys: maitred, PostgreSQL + Redis against Spring",
        "×",
        table.ratio(SHARED, SPRING),
        None,
    );
    compare(report, "… against the row lock", "×", table.ratio(SHARED, ROW_LOCK), None);
    let embedded = table.ratio(Contender::Embedded, SPRING);
    compare(report, "journeys: maitred embedded against Spring", "×", embedded, None);
    report.figures.extend(table.into_figures());
    Ok(())
}
