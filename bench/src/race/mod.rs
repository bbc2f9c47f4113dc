//! The race: maitred beside what people use today, over the same PostgreSQL and Redis, in one run on one machine.
//!
//! ```text
//!  contender  who takes part, and how each is started
//!  stage      the two servers, the programs, everybody's tokens
//!  running    a contender that is on it, and the crowds that come to it
//!  hot        one slot that never sells out: bookings a second, and the limits of what they stand on
//!  rush       twenty places and up to 110,000 guests at once: when everybody has an answer, and whether it is right
//!  slots      a thousand slots, a few of them popular
//!  journeys   booking, paying, cancelling
//!  cold       one guest at a time
//!  offered    latency against offered load
//!  line       cost against people in line
//! ```
//!
//! Everybody is driven by the same generator, which has guests come when they come. In every round the contenders take
//! turns in another order, and what is compared is compared within a round.

mod cold;
mod contender;
mod hot;
mod journeys;
mod line;
mod offered;
mod running;
mod rush;
mod slots;
mod stage;

use std::path::PathBuf;

use contender::Contender;
use stage::Stage;

use crate::results::{self, Aim, Comparison, Figure, Report, Spread};
use crate::{Result, machine};

/// What can be run alone.
pub const PARTS: [&str; 7] = ["hot", "rush", "slots", "journeys", "cold", "offered", "line"];

/// How much is run.
#[derive(Debug, Clone)]
pub struct Options {
    /// How often everything is measured.
    pub rounds: usize,
    /// Small crowds: to see that it works, not how fast.
    pub quick: bool,
    /// Only these parts.
    pub only: Vec<String>,
    /// Where results are written, also those of a part; a whole run is otherwise written where the README finds it.
    pub out: Option<PathBuf>,
}

impl Options {
    fn folder(&self) -> Option<PathBuf> {
        let whole = self.only.is_empty() && !self.quick;
        self.out.clone().or_else(|| whole.then(results::folder))
    }
}

/// Runs what was asked for, prints what it came to, and writes it down unless it was only a part.
pub fn run(options: Options) -> Result<()> {
    let wanted = |part: &str| options.only.is_empty() || options.only.iter().any(|only| only == part);
    let mut report = Report { command: "make bench".into(), ..Report::default() };
    report.notes.push(format!(
        "{} rounds, everything on one machine of {}",
        options.rounds,
        machine::described()
    ));
    let stage = Stage::set(options.rounds, options.quick, options.folder())?;
    report.notes.extend(stage.described());
    let mut peaks = hot::Peaks::default();
    if wanted("hot") {
        peaks = hot::run(&stage, &mut report)?;
    }
    if wanted("rush") {
        rush::run(&stage, &mut report)?;
    }
    if wanted("slots") {
        slots::run(&stage, &mut report)?;
    }
    if wanted("journeys") {
        journeys::run(&stage, &mut report)?;
    }
    if wanted("cold") {
        cold::run(&stage, &mut report)?;
    }
    if wanted("offered") {
        offered::run(&stage, &mut peaks, &mut report)?;
    }
    if wanted("line") {
        line::run(&stage, &mut report)?;
    }
    report.notes.extend(stage.remarks());
    println!("{}", report.to_markdown());
    for note in &report.notes {
        println!("* {note}");
    }
    stage.write("race.json", &format!("{:#}\n", report.to_json()))?;
    Ok(())
}

/// One figure for each contender, filled round by round.
struct Table {
    rows: Vec<(Contender, Figure)>,
}

impl Table {
    fn new(contenders: &[Contender], what: &str, unit: &'static str) -> Self {
        let figure = |contender: &Contender| Figure::new(format!("{what}: {}", contender.name()), unit);
        Self { rows: contenders.iter().map(|contender| (*contender, figure(contender))).collect() }
    }

    fn push(&mut self, contender: Contender, value: f64) {
        if let Some((_, figure)) = self.rows.iter_mut().find(|(row, _)| *row == contender) {
            eprintln!("  {}: {} {}", figure.name, results::number(value), figure.unit);
            figure.rounds.push(value);
        }
    }

    fn of(&self, contender: Contender) -> Option<&Figure> {
        self.rows.iter().find(|(row, _)| *row == contender).map(|(_, figure)| figure)
    }

    /// How often one is the other, where both were measured.
    fn ratio(&self, one: Contender, other: Contender) -> Option<Spread> {
        self.of(one)?.against(self.of(other)?)
    }

    fn into_figures(self) -> impl Iterator<Item = Figure> {
        self.rows.into_iter().map(|(_, figure)| figure)
    }
}

/// A comparison, where there is something to compare.
fn compare(
    report: &mut Report,
    what: impl Into<String>,
    unit: &'static str,
    came_to: Option<Spread>,
    aim: Option<Aim>,
) {
    report.comparisons.extend(came_to.map(|came_to| Comparison { what: what.into(), unit, came_to, aim }));
}

/// The contenders in this round's order.
fn in_turn(contenders: &[Contender], round: usize) -> impl Iterator<Item = Contender> {
    let mut order = contenders.to_vec();
    order.rotate_left(round % contenders.len().max(1));
    order.into_iter()
}
