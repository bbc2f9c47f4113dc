//! How it went, in figures: for people as text, for machines as JSON, for a browser in `page`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use serde::Serialize;

use crate::plan::{Plan, Slot};
use crate::run::Before;
use crate::{Exactness, Outcome, Record};

/// Points of a chart over time, at most.
const MOMENTS: u32 = 120;
/// Classes of a histogram to each factor of ten.
const CLASSES: f64 = 5.0;

/// How it went.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// What the venue is called.
    pub venue: String,
    /// What was asked for.
    pub slots: Vec<String>,
    /// How many came.
    pub guests: usize,
    /// What chance started from.
    pub seed: u64,
    /// Seconds until everybody knew.
    pub seconds: f64,
    /// Seconds until everybody who paid or cancelled afterwards had done so too.
    pub over_after: f64,
    /// Seconds until the last place was gone, where somebody was refused for want of one.
    pub sold_out_after: Option<f64>,
    /// Places that were left before, in the venue's unit.
    pub left_before: u64,
    /// Answers a second, from the first guest to the last answer.
    pub pace: f64,
    /// How many ended how.
    pub outcomes: BTreeMap<&'static str, usize>,
    /// Why people were refused.
    pub refusals: BTreeMap<&'static str, usize>,
    /// How many of the seated paid.
    pub paid: usize,
    /// From coming to knowing, by how it ended, and `all`.
    pub latency: BTreeMap<&'static str, Percentiles>,
    /// From pressing pay to paid.
    pub paying: Option<Percentiles>,
    /// What must be zero.
    pub exactness: Exactness,
    /// Some of the answers that were not understood.
    pub strange: Vec<String>,
    /// Seconds between two points of the charts.
    pub step: f64,
    /// The charts over time.
    pub moments: Vec<Moment>,
    /// How long people waited: seconds up to which a class goes, seated, everybody else.
    pub histogram: Vec<(f64, usize, usize)>,
}

/// Milliseconds within which so many had their answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Percentiles {
    /// How many there were.
    pub count: usize,
    /// Half of them.
    pub p50: f64,
    /// Nine of ten.
    pub p90: f64,
    /// All but one in a hundred.
    pub p99: f64,
    /// All of them.
    pub max: f64,
}

/// A moment of the rehearsal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Moment {
    /// Who had come and did not know yet, at its end.
    pub waiting: usize,
    /// Who were seated in it.
    pub seated: usize,
    /// Who got another answer in it, or gave up.
    pub others: usize,
}

impl Percentiles {
    /// Of these.
    pub fn of(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        let at = |share: f64| {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "between 0 and the length"
            )]
            let index = (times.len() as f64 * share) as usize;
            times.get(index.min(times.len().saturating_sub(1))).map_or(0.0, |time| time.as_secs_f64() * 1e3)
        };
        Self { count: times.len(), p50: at(0.5), p90: at(0.9), p99: at(0.99), max: at(1.0) }
    }
}

impl Report {
    pub(crate) fn new(
        plan: &Plan,
        slots: &[Slot],
        before: &Before,
        records: Vec<Record>,
        strange: Vec<String>,
        took: Duration,
    ) -> Self {
        let mut outcomes = BTreeMap::new();
        let mut refusals = BTreeMap::new();
        let mut latencies: BTreeMap<&str, Vec<Duration>> = BTreeMap::new();
        for record in &records {
            *outcomes.entry(record.outcome.as_str()).or_default() += 1;
            for name in [record.outcome.as_str(), "all"] {
                latencies.entry(name).or_default().push(record.latency());
            }
            if record.outcome == Outcome::Refused {
                *refusals.entry(record.code.unwrap_or("unknown")).or_default() += 1;
            }
        }
        let seatings = || records.iter().filter_map(|record| record.seating.as_ref());
        let paying: Vec<_> = seatings().filter(|s| s.paid).filter_map(|seating| seating.paying).collect();
        let last = records.iter().map(|record| record.settled).max().unwrap_or(took);
        let step = step(last);
        Self {
            venue: before.venue.clone(),
            slots: slots.iter().map(Slot::to_string).collect(),
            guests: records.len(),
            seed: plan.seed,
            seconds: last.as_secs_f64(),
            over_after: took.max(last).as_secs_f64(),
            sold_out_after: sold_out(&records),
            left_before: before.remaining.iter().map(|left| u64::from(*left)).sum(),
            pace: records.len() as f64 / last.as_secs_f64().max(1e-9),
            outcomes,
            refusals,
            paid: seatings().filter(|seating| seating.paid).count(),
            latency: latencies.into_iter().map(|(name, times)| (name, Percentiles::of(times))).collect(),
            paying: (!paying.is_empty()).then(|| Percentiles::of(paying)),
            exactness: Exactness::of(&records, before.unit, &before.remaining),
            strange,
            step: step.as_secs_f64(),
            moments: moments(&records, step),
            histogram: histogram(&records),
        }
    }

    /// How long whom it took, as it is told: who, how many, and the percentiles.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (&'static str, String, [String; 4])> {
        let names = Outcome::ALL.iter().map(|outcome| outcome.as_str()).chain(["all"]);
        let known = names.filter_map(|name| Some((name, *self.latency.get(name)?)));
        known.chain(self.paying.map(|paying| ("paying", paying))).map(|(name, times)| {
            (name, grouped(times.count), [times.p50, times.p90, times.p99, times.max].map(told))
        })
    }

    /// How many ended so.
    pub fn count(&self, outcome: Outcome) -> usize {
        self.outcomes.get(outcome.as_str()).copied().unwrap_or(0)
    }
}

fn sold_out(records: &[Record]) -> Option<f64> {
    records.iter().find(|record| record.is_refused_for_want())?;
    let seated = records.iter().filter(|record| record.outcome == Outcome::Seated);
    seated.map(|record| record.settled).max().map(|last| last.as_secs_f64())
}

/// A round step that gives charts enough points and not too many.
fn step(last: Duration) -> Duration {
    let steps = [50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000].map(Duration::from_millis);
    steps.into_iter().find(|step| *step * MOMENTS >= last).unwrap_or(last / MOMENTS)
}

fn moments(records: &[Record], step: Duration) -> Vec<Moment> {
    let at = |time: Duration| usize::try_from(time.as_nanos() / step.as_nanos().max(1)).unwrap_or(0);
    let length = records.iter().map(|record| at(record.settled)).max().map_or(0, |last| last + 1);
    let mut moments = vec![Moment::default(); length];
    let mut came = vec![0_usize; length];
    for record in records {
        came[at(record.arrived).min(length - 1)] += 1;
        let moment = &mut moments[at(record.settled)];
        let count = if record.outcome == Outcome::Seated { &mut moment.seated } else { &mut moment.others };
        *count += 1;
    }
    let mut waiting = 0;
    for (moment, came) in moments.iter_mut().zip(came) {
        waiting = (waiting + came).saturating_sub(moment.seated + moment.others);
        moment.waiting = waiting;
    }
    moments
}

fn histogram(records: &[Record]) -> Vec<(f64, usize, usize)> {
    let class = |record: &Record| {
        #[expect(clippy::cast_possible_truncation, reason = "the logarithm of a time is small")]
        let class = ((record.latency().as_secs_f64() * 1e3).max(0.1).log10() * CLASSES).ceil() as i32;
        class
    };
    let classes = records.iter().map(class);
    let (Some(first), Some(last)) = (classes.clone().min(), classes.max()) else { return vec![] };
    let mut histogram: Vec<_> =
        (first..=last).map(|class| (10_f64.powf(f64::from(class) / CLASSES) / 1e3, 0, 0)).collect();
    for record in records {
        let (_, seated, others) = &mut histogram[usize::try_from(class(record) - first).unwrap_or(0)];
        *(if record.outcome == Outcome::Seated { seated } else { others }) += 1;
    }
    histogram
}

/// A time, as people say it.
pub(crate) fn told(milliseconds: f64) -> String {
    match milliseconds {
        ms if ms < 10.0 => format!("{ms:.1} ms"),
        ms if ms < 1_000.0 => format!("{ms:.0} ms"),
        ms => format!("{:.2} s", ms / 1_000.0),
    }
}

/// A number with its thousands apart.
pub(crate) fn grouped(number: impl ToString) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let slots = match &self.slots[..] {
            [slot] => slot.clone(),
            slots => format!("{} slots", slots.len()),
        };
        writeln!(f, "{} · {slots} · {} guests · seed {}", self.venue, grouped(self.guests), self.seed)?;
        writeln!(
            f,
            "Everybody knew after {:.2} s, {} answers a second.",
            self.seconds,
            grouped(format!("{:.0}", self.pace))
        )?;
        if let Some(after) = self.sold_out_after {
            writeln!(f, "Sold out after {after:.2} s.")?;
        }
        writeln!(f, "\n{:<14}{:>9}{:>11}{:>11}{:>11}{:>11}", "", "guests", "p50", "p90", "p99", "longest")?;
        for (name, count, [p50, p90, p99, max]) in self.rows() {
            writeln!(f, "{name:<14}{count:>9}{p50:>11}{p90:>11}{p99:>11}{max:>11}")?;
        }
        let refusals: Vec<_> =
            self.refusals.iter().map(|(code, n)| format!("{} {code}", grouped(*n))).collect();
        if !refusals.is_empty() {
            writeln!(f, "\nRefused: {}", refusals.join(", "))?;
        }
        f.write_char('\n')?;
        for (name, figure) in self.exactness.figures() {
            let mark = if figure == 0 { "✓" } else { "✗" };
            writeln!(f, "{mark} {name:<22}{:>9}", grouped(figure))?;
        }
        for strange in &self.strange {
            writeln!(f, "  not understood: {strange}")?;
        }
        Ok(())
    }
}

impl Exactness {
    /// Each figure with what it is called.
    pub fn figures(&self) -> [(&'static str, u64); 6] {
        [
            ("oversold", self.oversold),
            ("double bookings", self.double_bookings),
            ("overtaken", self.inversions),
            ("vanished bookings", self.vanished),
            ("lost answers", self.lost_answers),
            ("unexplained answers", self.unexplained),
        ]
    }
}
