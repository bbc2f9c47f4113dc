//! Whether a long line costs more than a short one, drawn.

use super::compare;
use super::stage::Stage;
use crate::Result;
use crate::in_line::{self, Cost, LENGTHS};
use crate::plot::{Kind, Line, Lines, Scale};
use crate::results::{Aim, Figure, Report, number};

/// A part of a cost.
type Part = (&'static str, fn(&Cost) -> f64);

/// All of it, and the parts.
const PARTS: [Part; 4] = [
    ("in all", |cost| cost.total),
    ("desk and guests", |cost| cost.desk),
    ("Redis", |cost| cost.redis),
    ("PostgreSQL", |cost| cost.postgres),
];

/// Measures every length.
pub fn run(stage: &Stage, report: &mut Report) -> Result<()> {
    let name = |length: u64, part: &str| {
        format!("processor time of a booking with {} in line, {part}", number(length as f64))
    };
    let mut figures = LENGTHS.map(|length| PARTS.map(|(part, _)| Figure::new(name(length, part), "µs")));
    for round in 0..stage.rounds {
        eprintln!("line, round {}", round + 1);
        for turn in 0..LENGTHS.len() {
            let n = (round + turn) % LENGTHS.len();
            let cost = in_line::cost(&stage.world, LENGTHS[n])?;
            eprintln!("  {}: {cost:.1?}", LENGTHS[n]);
            for (figure, (_, part)) in figures[n].iter_mut().zip(PARTS) {
                figure.rounds.push(part(&cost));
            }
        }
    }
    let against = |short: usize| figures[LENGTHS.len() - 1][0].against(&figures[short][0]);
    let what = "processor time of a booking with 100,000 in line against 100";
    compare(report, what, "×", against(0), Some(Aim::AtMost(1.3)));
    compare(report, "… against 1,000", "×", against(1), None);
    draw(stage, &figures)?;
    report.figures.extend(figures.into_iter().flatten());
    Ok(())
}

fn draw(stage: &Stage, figures: &[[Figure; 4]; 4]) -> Result<()> {
    let line = |part: usize| {
        let points = LENGTHS
            .iter()
            .zip(figures)
            .filter_map(|(length, parts)| Some((*length as f64, parts[part].spread()?)));
        let kind = if part == 0 { Kind::Ours } else { Kind::Other };
        Line { name: PARTS[part].0.into(), kind, points: points.collect() }
    };
    let lines = Lines {
        title: "What a booking costs against people in line".into(),
        subtitle: "processor time, PostgreSQL + Redis, without HTTP; whiskers: lowest and highest round"
            .into(),
        across: "people in line".into(),
        up: "µs".into(),
        scale: Scale::Linear,
        lines: [3, 2, 1, 0].map(line).into(),
        aims: vec![],
    };
    stage.write("in-line.svg", &lines.to_svg())
}
