//! What a run came to: figures of several rounds, how they compare, and whether that is what was aimed for.
//!
//! A figure is the median of its rounds. Its spread is the lowest and the highest of them: with a handful of rounds,
//! anything finer would be made up. A ratio is taken within each round, where both sides met the same machine, and is
//! then summed up in the same way: the median of the rounds' ratios, and the lowest and the highest of them.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::{Result, machine, median};

/// One quantity, measured once a round.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// What it is of.
    pub name: String,
    /// What it is counted in.
    pub unit: &'static str,
    /// As measured, in order.
    pub rounds: Vec<f64>,
}

/// The middle of some rounds and how far they lie apart.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// The middle one.
    pub median: f64,
    /// The lowest.
    pub lowest: f64,
    /// The highest.
    pub highest: f64,
}

impl Spread {
    /// Of these rounds; nothing of none.
    pub fn of(rounds: &[f64]) -> Option<Self> {
        let lowest = rounds.iter().copied().reduce(f64::min)?;
        let highest = rounds.iter().copied().reduce(f64::max)?;
        Some(Self { median: median(&mut rounds.to_vec()), lowest, highest })
    }

    fn to_json(self) -> Value {
        json!({ "median": rounded(self.median), "lowest": rounded(self.lowest), "highest": rounded(self.highest) })
    }
}

impl Figure {
    /// Nothing measured yet.
    pub fn new(name: impl Into<String>, unit: &'static str) -> Self {
        Self { name: name.into(), unit, rounds: Vec::new() }
    }

    /// The middle and the spread of its rounds.
    pub fn spread(&self) -> Option<Spread> {
        Spread::of(&self.rounds)
    }

    /// Round by round, this against another. Rounds that only one of them finished do not count.
    pub fn against(&self, other: &Self) -> Option<Spread> {
        let ratios = self.rounds.iter().zip(&other.rounds).map(|(own, other)| own / other);
        Spread::of(&ratios.filter(|ratio| ratio.is_finite()).collect::<Vec<_>>())
    }
}

/// What a comparison should come to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Aim {
    /// Not less.
    AtLeast(f64),
    /// Not more.
    AtMost(f64),
}

impl Aim {
    /// Whether a figure is what was aimed for: its median decides.
    pub fn is_met(self, figure: Spread) -> bool {
        match self {
            Self::AtLeast(least) => figure.median >= least,
            Self::AtMost(most) => figure.median <= most,
        }
    }
}

/// A figure set beside another, or beside what it should be.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// In a sentence.
    pub what: String,
    /// `×`, `ms`, `GiB` and so on.
    pub unit: &'static str,
    /// What it came to.
    pub came_to: Spread,
    /// What it should.
    pub aim: Option<Aim>,
}

/// Everything that one run found.
#[derive(Debug, Default)]
pub struct Report {
    /// The command that repeats it.
    pub command: String,
    /// What was run, in which configuration.
    pub notes: Vec<String>,
    /// Every figure with its rounds.
    pub figures: Vec<Figure>,
    /// What they say.
    pub comparisons: Vec<Comparison>,
}

impl Report {
    /// Both tables, as the README shows them.
    pub fn to_markdown(&self) -> String {
        let mut text = format!("$ {}\n{}\n\n", self.command, machine::described());
        text += "| | median | lowest–highest | |\n| --- | ---: | ---: | --- |\n";
        for (figure, spread) in self.figures.iter().filter_map(|figure| Some((figure, figure.spread()?))) {
            let (low, high) = (number(spread.lowest), number(spread.highest));
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "| {} | {} | {low}–{high} | {} |",
                figure.name,
                number(spread.median),
                figure.unit
            );
        }
        if self.comparisons.is_empty() {
            return text;
        }
        text += "\n| | median | lowest–highest | aim | |\n| --- | ---: | ---: | ---: | --- |\n";
        for Comparison { what, unit, came_to, aim } in &self.comparisons {
            let (aimed, met) = match aim {
                None => (String::new(), ""),
                Some(aim) => (described(*aim, unit), if aim.is_met(*came_to) { "met" } else { "**missed**" }),
            };
            let (low, high) = (number(came_to.lowest), number(came_to.highest));
            let _ = writeln!(
                text,
                "| {what} | {} {unit} | {low}–{high} | {aimed} | {met} |",
                number(came_to.median)
            );
        }
        text
    }

    /// For machines: where and when it was run, how, and every round.
    pub fn to_json(&self) -> Value {
        let figures = self.figures.iter().map(|figure| {
            let rounds: Vec<_> = figure.rounds.iter().map(|round| rounded(*round)).collect();
            json!({ "name": figure.name, "unit": figure.unit, "spread": figure.spread().map(Spread::to_json), "rounds": rounds })
        });
        let comparisons = self.comparisons.iter().map(|Comparison { what, unit, came_to, aim }| {
            let (aimed, met) = (aim.map(|aim| described(aim, unit)), aim.map(|aim| aim.is_met(*came_to)));
            json!({ "what": what, "unit": unit, "cameTo": came_to.to_json(), "aim": aimed, "met": met })
        });
        json!({
            "machine": machine::described(),
            "date": jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            "command": self.command,
            "notes": self.notes,
            "spread": "lowest and highest of the rounds; a ratio is taken within each round",
            "figures": figures.collect::<Vec<_>>(),
            "comparisons": comparisons.collect::<Vec<_>>(),
        })
    }

    /// Writes `NAME.json` among the results.
    pub fn write(&self, name: &str) -> Result<PathBuf> {
        let path = folder().join(format!("{name}.json"));
        std::fs::create_dir_all(folder())?;
        std::fs::write(&path, format!("{:#}\n", self.to_json()))?;
        Ok(path)
    }
}

/// Where results are kept: with the sources, since the README shows them.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("results")
}

fn described(aim: Aim, unit: &str) -> String {
    match aim {
        Aim::AtLeast(least) => format!("≥ {} {unit}", number(least)),
        Aim::AtMost(most) => format!("≤ {} {unit}", number(most)),
    }
}

/// Four digits are more than any of these figures has; files need no more.
fn rounded(figure: f64) -> f64 {
    format!("{figure:.3e}").parse().unwrap_or(figure)
}

/// A figure for people: three digits, and commas where it is long.
pub fn number(figure: f64) -> String {
    let places = match figure.abs() {
        size if size >= 99.95 => 0,
        size if size >= 9.995 => 1,
        0.0 => 0,
        size if size >= 0.0995 => 2,
        _ => 3,
    };
    let text = format!("{figure:.places$}");
    let whole = text.find('.').unwrap_or(text.len());
    let (digits, rest) = text.split_at(whole);
    let (sign, digits) = digits.strip_prefix('-').map_or(("", digits), |digits| ("-", digits));
    let mut grouped = String::new();
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    format!("{sign}{grouped}{rest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(rounds: &[f64]) -> Figure {
        Figure { rounds: rounds.to_vec(), ..Figure::new("it", "a second") }
    }

    #[test]
    fn a_ratio_is_taken_within_each_round() {
        let (own, other) = (figure(&[100.0, 300.0, 200.0]), figure(&[10.0, 10.0, 40.0]));
        assert_eq!(own.against(&other), Some(Spread { median: 10.0, lowest: 5.0, highest: 30.0 }));
        assert_eq!(own.against(&figure(&[])), None);
    }

    #[test]
    fn an_aim_is_met_by_the_median() {
        let spread = Spread { median: 30.0, lowest: 10.0, highest: 90.0 };
        assert!(Aim::AtLeast(30.0).is_met(spread) && !Aim::AtLeast(31.0).is_met(spread));
        assert!(Aim::AtMost(30.0).is_met(spread) && !Aim::AtMost(29.0).is_met(spread));
    }

    #[test]
    fn numbers_are_read_by_people() {
        let written = [0.0, 0.0123, 0.456, 1.3, 52.34, 999.6, 1234.5, 1_234_567.0, -1500.0].map(number);
        assert_eq!(written, ["0", "0.012", "0.46", "1.30", "52.3", "1,000", "1,234", "1,234,567", "-1,500"]);
    }

    #[test]
    fn a_report_says_what_was_missed() {
        let came_to = Spread { median: 22.0, lowest: 20.0, highest: 25.0 };
        let aim = Some(Aim::AtLeast(30.0));
        let comparison = Comparison { what: "maitred against Spring".into(), unit: "×", came_to, aim };
        let report = Report {
            figures: vec![figure(&[5.0, 7.0, 6.0])],
            comparisons: vec![comparison],
            ..Report::default()
        };
        let text = report.to_markdown();
        assert!(text.contains("| it | 6.00 | 5.00–7.00 | a second |"), "{text}");
        assert!(
            text.contains("| maitred against Spring | 22.0 × | 20.0–25.0 | ≥ 30.0 × | **missed** |"),
            "{text}"
        );
        assert_eq!(report.to_json()["comparisons"][0]["met"], false);
    }
}
