//! From figures to places on a page, and which figures are written beside an axis.

use crate::results::number;

/// How figures lie on an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// Ten times as much is always the same step.
    Log,
    /// From nothing, evenly.
    Linear,
}

/// An axis between two places on the page.
#[derive(Debug, Clone, Copy)]
pub(super) struct Axis {
    scale: Scale,
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Axis {
    /// One that all of these figures lie on, between these places. A logarithmic one ends where its ticks do.
    pub(super) fn over(figures: impl Iterator<Item = f64>, scale: Scale, from: f64, to: f64) -> Self {
        let figures: Vec<f64> = figures
            .filter(|figure| figure.is_finite() && (scale == Scale::Linear || *figure > 0.0))
            .collect();
        let lowest = figures.iter().copied().reduce(f64::min).unwrap_or(1.0);
        let highest = figures.iter().copied().reduce(f64::max).unwrap_or(10.0);
        let (low, high) = match scale {
            Scale::Linear => (0.0, nice(highest * 1.15)),
            Scale::Log => (below(lowest), above(highest)),
        };
        Self { scale, low, high, from, to }
    }

    /// The same from a whole decade below everything, so that the shortest bar is one too.
    pub(super) fn begun_a_decade_below(mut self, lowest: f64) -> Self {
        self.low = 10_f64.powf((lowest * 0.6).log10().floor());
        self
    }

    /// Where a figure lies.
    pub(super) fn at(self, figure: f64) -> f64 {
        let part = match self.scale {
            Scale::Linear => figure / self.high,
            Scale::Log => (figure.max(self.low) / self.low).log10() / (self.high / self.low).log10(),
        };
        self.from + part.clamp(0.0, 1.0) * (self.to - self.from)
    }

    /// Figures worth a line across the drawing.
    pub(super) fn ticks(self) -> Vec<f64> {
        match self.scale {
            Scale::Linear => {
                let step = nice(self.high / 6.0);
                (0..10).map(|n| f64::from(n) * step).take_while(|tick| *tick <= self.high * 1.001).collect()
            }
            Scale::Log => {
                let decades = (self.high / self.low).log10();
                let between: &[f64] = if decades < 2.5 { &[1.0, 2.0, 5.0] } else { &[1.0] };
                let first = 10_f64.powf(self.low.log10().floor());
                let all = (0..12).flat_map(|n| between.iter().map(move |part| part * first * 10_f64.powi(n)));
                all.filter(|tick| (self.low * 0.999..=self.high * 1.001).contains(tick)).collect()
            }
        }
    }
}

/// 1, 2 or 5 times a power of ten, at least this much.
fn nice(figure: f64) -> f64 {
    let decade = 10_f64.powf(figure.log10().floor());
    let step =
        [1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0].into_iter().find(|step| step * decade >= figure * 0.999);
    step.unwrap_or(10.0) * decade
}

fn above(figure: f64) -> f64 {
    let decade = 10_f64.powf(figure.log10().floor());
    let step = [1.0, 2.0, 5.0].into_iter().find(|step| step * decade >= figure * 0.999);
    step.unwrap_or(10.0) * decade
}

fn below(figure: f64) -> f64 {
    let decade = 10_f64.powf(figure.log10().floor());
    let step = [5.0, 2.0].into_iter().find(|step| step * decade <= figure * 1.001);
    step.unwrap_or(1.0) * decade
}

/// A figure as it is written into a drawing, where there is no room for more: 0.05, 1.3, 47, 12,000, 3M.
pub(super) fn short(figure: f64) -> String {
    if figure >= 1e6 {
        return format!("{}M", short(figure / 1e6));
    }
    let text = if figure >= 9.95 { number(figure.round()) } else { format!("{figure:.2}") };
    match text.split_once('.') {
        Some((whole, part)) if figure >= 9.95 || part.chars().all(|digit| digit == '0') => whole.to_owned(),
        Some((whole, part)) if figure >= 0.95 => format!("{whole}.{}", &part[..1]),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short() {
        let written = [0.0, 0.05, 0.31, 1.0, 1.34, 6.4, 47.3, 98.0, 999.6, 12_000.0, 3e6].map(short);
        assert_eq!(written, ["0", "0.05", "0.31", "1", "1.3", "6.4", "47", "98", "1,000", "12,000", "3M"]);
    }

    #[test]
    fn a_logarithmic_axis_ends_at_its_ticks() {
        let axis = Axis::over([3.0, 24_000.0].into_iter(), Scale::Log, 0.0, 100.0);
        assert!((axis.at(2.0) - 0.0).abs() < 1e-9 && (axis.at(50_000.0) - 100.0).abs() < 1e-9);
        assert_eq!(axis.ticks(), [10.0, 100.0, 1_000.0, 10_000.0]);
    }

    #[test]
    fn an_even_axis_begins_with_nothing() {
        let axis = Axis::over([98.0, 157.0].into_iter(), Scale::Linear, 100.0, 0.0);
        assert!((axis.at(0.0) - 100.0).abs() < 1e-9);
        assert_eq!(axis.ticks(), [0.0, 40.0, 80.0, 120.0, 160.0, 200.0]);
    }
}
