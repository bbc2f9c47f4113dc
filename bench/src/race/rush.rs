//! Twenty places and far more guests, all at once: when everybody has an answer, and whether the answers are right.

use std::time::Duration;

use rehearsal::Outcome;

use super::contender::{Contender, SHARED, SPRING};
use super::running::{Crowd, Running};
use super::stage::Stage;
use super::{Table, compare, in_turn};
use crate::Result;
use crate::results::{Aim, Figure, Report, Spread, number};

const PLACES: u32 = 20;
/// Crowds. The last one is only maitred's.
const CROWDS: [u32; 3] = [1_000, 10_000, 110_000];
const OURS: [Contender; 3] = [Contender::Embedded, SHARED, Contender::Shared(3)];
/// Connections at most, to everybody together.
const CONNECTIONS: usize = 10_000;
/// When a crowd goes home, answered or not.
const OVER: Duration = Duration::from_secs(120);

/// What must be zero, of all rounds together.
#[derive(Debug, Default)]
struct Wrong {
    unanswered: usize,
    oversold: u64,
    inversions: u64,
}

fn face(running: &Running<'_>, guests: u32) -> Result<rehearsal::Report> {
    let slot = running.fresh_slot()?;
    let connections = CONNECTIONS.min(guests as usize);
    let look_after = running.contender.is_maitred();
    running.face(Crowd { patience: OVER, look_after, ..Crowd::at_once(guests, slot, connections) })
}

fn answered(report: &rehearsal::Report) -> usize {
    report.count(Outcome::Seated) + report.count(Outcome::Refused)
}

/// Measures everybody.
pub fn run(stage: &Stage, report: &mut Report) -> Result<()> {
    let crowds = CROWDS.map(|guests| stage.many(guests));
    let what = |guests: u32| format!("{PLACES} places, {} guests, everybody answered", number(guests.into()));
    let mut times = crowds.map(|guests| Table::new(&OURS, &what(guests), "s"));
    let mut memory = Table::new(
        &OURS,
        &format!("most memory of a server with {} guests", number(crowds[2].into())),
        "GiB",
    );
    let mut wrong = Wrong::default();
    for round in 0..stage.rounds {
        eprintln!("rush, round {}", round + 1);
        for contender in in_turn(&OURS, round) {
            let running = stage.start(contender, PLACES)?;
            running.warm_up()?;
            for (guests, table) in crowds.iter().zip(&mut times) {
                let went = face(&running, *guests)?;
                table.push(contender, went.seconds);
                wrong.unanswered += went.guests - answered(&went);
                wrong.oversold += went.exactness.oversold;
                wrong.inversions += went.exactness.inversions;
            }
            memory.push(contender, running.peak_memory()?);
        }
    }
    let (figures, projected) = spring(stage, &crowds)?;
    conclude(&times[2], &memory, &wrong, &projected, stage.rounds, report);
    report.figures.extend(times.into_iter().flat_map(Table::into_figures));
    report.figures.extend(memory.into_figures());
    report.figures.extend(figures);
    Ok(())
}

/// What the first contender does with the smaller crowds, once, and how long it would take for the largest at that pace.
fn spring(stage: &Stage, crowds: &[u32; 3]) -> Result<(Vec<Figure>, Option<f64>)> {
    eprintln!("rush, {}", SPRING.name());
    let running = stage.start(SPRING, PLACES)?;
    running.warm_up()?;
    let (mut figures, mut projected) = (vec![], None);
    for guests in &crowds[..2] {
        let went = face(&running, *guests)?;
        let (answered, all) = (answered(&went), number((*guests).into()));
        let name = format!("{PLACES} places, {all} guests: {}", SPRING.name());
        if answered == went.guests {
            figures.push(Figure {
                rounds: vec![went.seconds],
                ..Figure::new(format!("{name}, everybody answered"), "s")
            });
        } else {
            let share = 100.0 * answered as f64 / went.guests as f64;
            let name = format!("{name}, answered within {} s", OVER.as_secs());
            figures.push(Figure { rounds: vec![share], ..Figure::new(name, "%") });
        }
        if answered > 0 {
            let whole = went.seconds * f64::from(crowds[2]) / answered as f64;
            stage.remark(format!(
                "{} gave {answered} of {all} guests an answer within {} s ({:?}); for {} that is {} s in proportion",
                SPRING.name(),
                number(went.seconds),
                went.outcomes,
                number(crowds[2].into()),
                number(whole)
            ));
            projected = Some(whole);
        }
    }
    Ok((figures, projected))
}

fn conclude(
    times: &Table,
    memory: &Table,
    wrong: &Wrong,
    projected: &Option<f64>,
    rounds: usize,
    report: &mut Report,
) {
    for contender in OURS {
        let Some(figure) = times.of(contender) else { continue };
        let ratios = projected.map(|whole| figure.rounds.iter().map(|own| whole / own).collect::<Vec<_>>());
        let shorter = ratios.and_then(|ratios| Spread::of(&ratios));
        let what =
            format!("110,000 guests: {}, how much shorter than Spring in proportion", contender.name());
        compare(report, what, "×", shorter, Some(Aim::AtLeast(50.0)));
        let most = memory.of(contender).and_then(Figure::spread);
        let what = format!("110,000 guests: {}, resident", contender.name());
        compare(report, what, "GiB", most, Some(Aim::AtMost(1.5)));
    }
    let counts = [
        ("guests without an answer", wrong.unanswered as f64),
        ("places sold beyond what there was", wrong.oversold as f64),
        ("inversions", wrong.inversions as f64),
    ];
    for (what, count) in counts {
        let what = format!("all crowds at maitred in {rounds} rounds: {what}");
        compare(report, what, "", Spread::of(&[count]), Some(Aim::AtMost(0.0)));
    }
}
