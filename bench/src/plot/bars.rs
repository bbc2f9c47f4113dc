//! Bars beside each other on a logarithmic axis: who does how much.

use super::Kind;
use super::axis::{Axis, Scale, short};
use super::canvas::{Anchor, Area, Canvas, width};
use crate::results::Spread;

const WIDTH: f64 = 880.0;
const TOP: f64 = 84.0;
const ROW: f64 = 36.0;
const THICK: f64 = 20.0;
/// Room between sorts of bars.
const GAP: f64 = 14.0;

/// One bar.
#[derive(Debug, Clone)]
pub struct Bar {
    /// Whose.
    pub name: String,
    /// How it looks.
    pub kind: Kind,
    /// How long it is, with whiskers for the spread.
    pub value: Spread,
    /// What is written after the value, such as how many times something else it is.
    pub beside: String,
}

/// A drawing of bars.
#[derive(Debug, Clone)]
pub struct Bars {
    /// What it shows.
    pub title: String,
    /// In which unit, and what the whiskers are.
    pub subtitle: String,
    /// From top to bottom. Bars of another kind than the one above stand a little apart.
    pub bars: Vec<Bar>,
}

impl Bars {
    /// The drawing.
    pub fn to_svg(&self) -> String {
        let names = self.bars.iter().map(|bar| width(&bar.name, 13.0) * 1.06).fold(0.0, f64::max);
        let beside = self.bars.iter().map(|bar| width(&labelled(bar), 13.0)).fold(0.0, f64::max);
        let (left, right) = (24.0 + names + 12.0, WIDTH - 24.0 - beside - 10.0);
        let gaps = self.bars.windows(2).filter(|pair| pair[0].kind != pair[1].kind).count();
        let bottom = TOP + self.bars.len() as f64 * ROW + gaps as f64 * GAP;
        let mut canvas = Canvas::new(WIDTH, bottom + 40.0, &self.title, &self.subtitle);
        let ends = self.bars.iter().flat_map(|bar| [bar.value.lowest, bar.value.highest]);
        let lowest = self.bars.iter().map(|bar| bar.value.lowest).fold(f64::MAX, f64::min);
        let axis = Axis::over(ends, Scale::Log, left, right).begun_a_decade_below(lowest);
        for tick in axis.ticks() {
            let x = axis.at(tick);
            canvas.line("grid", (x, TOP - 6.0), (x, bottom));
            canvas.text("soft small", Anchor::Middle, (x, bottom + 20.0), &short(tick));
        }
        canvas.line("axis", (left, TOP - 6.0), (left, bottom));
        let (mut y, mut before) = (TOP, None);
        for bar in &self.bars {
            y += if before.is_some_and(|kind| kind != bar.kind) { GAP } else { 0.0 };
            before = Some(bar.kind);
            draw(&mut canvas, bar, axis, y + ROW / 2.0);
            y += ROW;
        }
        canvas.finish()
    }
}

fn labelled(bar: &Bar) -> String {
    let gap = if bar.beside.is_empty() { "" } else { "   " };
    format!("{}{gap}{}", short(bar.value.median), bar.beside)
}

fn draw(canvas: &mut Canvas, bar: &Bar, axis: Axis, middle: f64) {
    let Spread { median, lowest, highest } = bar.value;
    let (from, to) = (axis.at(0.0), axis.at(median));
    let strong = if bar.kind == Kind::Ours { "strong" } else { "" };
    canvas.text(strong, Anchor::End, (from - 12.0, middle + 4.5), &bar.name);
    let area = Area { left: from, top: middle - THICK / 2.0, right: to, bottom: middle + THICK / 2.0 };
    canvas.rect(bar.kind.class(), area, 2.0);
    let (low, high) = (axis.at(lowest), axis.at(highest));
    // Whiskers that are shorter than their own ends say nothing.
    if high - low > 3.0 {
        canvas.line("whisker", (low, middle), (high, middle));
        for x in [low, high] {
            canvas.line("whisker", (x, middle - 4.0), (x, middle + 4.0));
        }
    }
    let x = to.max(high) + 9.0;
    let value = short(median);
    canvas.text("strong halo", Anchor::Start, (x, middle + 4.5), &value);
    if !bar.beside.is_empty() {
        canvas.text("soft halo", Anchor::Start, (x + width(&value, 13.0) + 12.0, middle + 4.5), &bar.beside);
    }
}
