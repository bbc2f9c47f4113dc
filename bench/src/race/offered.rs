//! Latency against offered load: guests come at random, so many a second, and nobody waits for the server to keep up.
//!
//! Every contender is measured at shares of its own peak; the others also at shares of maitred's, where most of their
//! guests get no answer in time: whoever lost patience counts with the time that they waited.

use std::time::Duration;

use rehearsal::{Arrivals, Outcome};

use super::contender::{Contender, ROW_LOCK, SHARED, SPRING};
use super::hot::Peaks;
use super::running::{Crowd, Running};
use super::stage::{Cast, Stage};
use super::{compare, in_turn};
use crate::Result;
use crate::plot::{Line, Lines, Scale};
use crate::results::{Aim, Figure, Report, number};
use crate::world::ENDLESS;

const CONTENDERS: [Contender; 4] = [SPRING, ROW_LOCK, Contender::Embedded, SHARED];
/// Per cent of a peak.
const SHARES: [u32; 5] = [10, 25, 50, 75, 90];
/// Per cent of maitred's, which is more than the others can do.
const BEYOND: [u32; 3] = [10, 50, 90];
/// Of those as many come as a process here may have files open, with room: when they lose patience, each leaves a
/// connection behind that the server has yet to notice.
const MOST: f64 = 12_000.0;
/// How long guests come.
const TIME: Duration = Duration::from_secs(3);
const PATIENCE: Duration = Duration::from_secs(10);
const CONNECTIONS: usize = 4_000;

/// p99 at one offered load.
struct Point {
    contender: Contender,
    /// Of whose peak, and how much of it.
    of: Contender,
    share: u32,
    offered: f64,
    p99: Figure,
    p50: Figure,
    served: Figure,
}

impl Point {
    fn new(contender: Contender, of: Contender, share: u32, peak: f64) -> Self {
        let offered = peak * f64::from(share) / 100.0;
        let whose = if contender == of { "its" } else { "maitred's" };
        let named = |what: &str, unit| {
            let load = number(offered);
            Figure::new(format!("{what} at {share} % of {whose} peak ({load}/s): {}", contender.name()), unit)
        };
        let (p50, p99) = (named("p50", "ms"), named("p99", "ms"));
        Self { contender, of, share, offered, p99, p50, served: named("booked", "%") }
    }

    fn measure(&mut self, running: &Running<'_>, time: Duration) -> Result<()> {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a load times some seconds"
        )]
        let guests = {
            let most = if self.of == self.contender { f64::MAX } else { MOST };
            (self.offered * time.as_secs_f64()).ceil().clamp(20.0, most) as u32
        };
        let arrivals = Arrivals::Poisson(self.offered);
        let crowd = Crowd::at_once(guests, running.fresh_slot()?, CONNECTIONS.min(guests as usize * 2));
        let report = running.face(Crowd { arrivals, patience: PATIENCE, ..crowd })?;
        let all = report.latency.get("all").copied().unwrap_or_default();
        let served = 100.0 * report.count(Outcome::Seated) as f64 / f64::from(guests);
        eprintln!("  {}: p99 {} ms, {} % booked", self.p99.name, number(all.p99), number(served));
        self.p99.rounds.push(all.p99);
        self.p50.rounds.push(all.p50);
        self.served.rounds.push(served);
        Ok(())
    }
}

/// Measures everybody.
pub fn run(stage: &Stage, peaks: &mut Peaks, report: &mut Report) -> Result<()> {
    let mut points = vec![];
    for contender in CONTENDERS {
        let peak = peaks.of(stage, contender)?;
        points.extend(SHARES.map(|share| Point::new(contender, contender, share, peak)));
    }
    let ours = peaks.of(stage, SHARED)?;
    for contender in [SPRING, ROW_LOCK] {
        points.extend(BEYOND.map(|share| Point::new(contender, SHARED, share, ours)));
    }
    let time = if stage.quick { TIME / 4 } else { TIME };
    let mut cast = Cast::new(stage, ENDLESS);
    for round in 0..stage.rounds {
        eprintln!("offered load, round {}", round + 1);
        for contender in in_turn(&CONTENDERS, round) {
            // More than a contender can do is sent once: it takes as long as guests have patience.
            let meant =
                |point: &&mut Point| point.contender == contender && (point.of == contender || round == 0);
            for point in points.iter_mut().filter(meant) {
                let fine = cast.with(contender, |running| {
                    point.measure(running, time)?;
                    Ok(point.of == contender || running.quiet()?)
                })?;
                if !fine {
                    cast.end(contender);
                }
            }
        }
    }
    conclude(&points, report);
    draw(stage, &points)?;
    report.figures.extend(points.into_iter().flat_map(|point| [point.p50, point.p99, point.served]));
    Ok(())
}

fn conclude(points: &[Point], report: &mut Report) {
    let half =
        |contender, of| points.iter().find(|p| p.contender == contender && p.of == of && p.share == 50);
    for (contender, most) in [(Contender::Embedded, 50.0), (SHARED, 100.0)] {
        let p99 = half(contender, contender).and_then(|point| point.p99.spread());
        let what = format!("p99 at half of its own peak: {}", contender.name());
        compare(report, what, "ms", p99, Some(Aim::AtMost(most)));
    }
    for contender in [SPRING, ROW_LOCK] {
        let Some(point) = half(contender, SHARED) else { continue };
        let what = format!("p99 at half of maitred's peak: {}", contender.name());
        compare(report, what, "ms", point.p99.spread(), None);
        let what = format!("… of whose guests were booked within {} s", PATIENCE.as_secs());
        compare(report, what, "%", point.served.spread(), None);
    }
}

fn draw(stage: &Stage, points: &[Point]) -> Result<()> {
    let line = |contender: Contender| {
        let of = points.iter().filter(|point| point.contender == contender);
        let mut points: Vec<_> = of.filter_map(|point| Some((point.offered, point.p99.spread()?))).collect();
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
        Line { name: contender.name().into(), kind: contender.kind(), points }
    };
    let lines = Lines {
        title: "p99 against offered load, one hot slot".into(),
        subtitle:
            "guests come at random; from coming to knowing; patience 10 s; whiskers: lowest and highest round"
                .into(),
        across: "guests a second".into(),
        up: "ms".into(),
        scale: Scale::Log,
        lines: CONTENDERS.map(line).into(),
        aims: vec![],
    };
    stage.write("p99.svg", &lines.to_svg())
}
