//! One guest at a time: the first one a new server sees, and one after another on an idle one.

use std::time::Instant;

use super::contender::{Contender, ROW_LOCK, SHARED, SPRING};
use super::running::Running;
use super::stage::Stage;
use super::{Table, compare, in_turn};
use crate::load::Connection;
use crate::results::Report;
use crate::world::ENDLESS;
use crate::{Result, median};

const CONTENDERS: [Contender; 4] = [SPRING, ROW_LOCK, Contender::Embedded, SHARED];
/// Guests, one after another.
const GUESTS: u32 = 200;

/// Milliseconds of so many bookings, one after another over one connection.
fn one_by_one(running: &Running<'_>, guests: u32) -> Result<Vec<f64>> {
    let slot = running.fresh_slot()?;
    let address = running.addresses().first().copied().ok_or("nobody listens")?;
    let requests = running.requests(&slot, guests)?;
    running.stage().world.runtime.block_on(async {
        let mut connection = Connection::open(address).await?;
        let mut times = Vec::with_capacity(requests.len());
        for request in requests {
            let begun = Instant::now();
            let status = connection.send(request.as_bytes()).await?;
            times.push(begun.elapsed().as_secs_f64() * 1e3);
            if status != 201 {
                return Err(format!("{} answered {status}", running.contender.name()).into());
            }
        }
        Ok(times)
    })
}

/// Measures everybody.
pub fn run(stage: &Stage, report: &mut Report) -> Result<()> {
    let mut starts = Table::new(&CONTENDERS, "start until it serves", "ms");
    let mut firsts = Table::new(&CONTENDERS, "first booking of a new server", "ms");
    let mut usual = Table::new(&CONTENDERS, "median of 200 bookings, one after another", "ms");
    for round in 0..stage.rounds {
        eprintln!("cold, round {}", round + 1);
        for contender in in_turn(&CONTENDERS, round) {
            let running = stage.start(contender, ENDLESS)?;
            starts.push(contender, running.started_in.as_secs_f64() * 1e3);
            let first = one_by_one(&running, 1)?;
            firsts.push(contender, first.first().copied().unwrap_or(f64::NAN));
            running.warm_up()?;
            usual.push(contender, median(&mut one_by_one(&running, GUESTS)?));
        }
    }
    let ratio = usual.ratio(SPRING, SHARED);
    compare(
        report,
        "one after another: Spring's median against that of maitred, PostgreSQL + Redis",
        "×",
        ratio,
        None,
    );
    for table in [starts, firsts, usual] {
        report.figures.extend(table.into_figures());
    }
    Ok(())
}
