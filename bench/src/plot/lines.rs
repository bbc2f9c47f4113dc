//! Lines over a logarithmic axis: how something grows with something else.

use super::Kind;
use super::axis::{Axis, Scale, short};
use super::canvas::{Anchor, Area, Canvas, width};
use crate::results::Spread;

const WIDTH: f64 = 880.0;
const HEIGHT: f64 = 460.0;
const TOP: f64 = 84.0;
const BOTTOM: f64 = HEIGHT - 62.0;
const LEFT: f64 = 84.0;
/// Whiskers that are shorter hide behind the point.
const SEEN: f64 = 10.0;
/// Between names at the ends of lines.
const APART: f64 = 18.0;

/// One line, named at its end.
#[derive(Debug, Clone)]
pub struct Line {
    /// Whose.
    pub name: String,
    /// How it looks.
    pub kind: Kind,
    /// From left to right, with whiskers for the spread.
    pub points: Vec<(f64, Spread)>,
}

/// A drawing of lines.
#[derive(Debug, Clone)]
pub struct Lines {
    /// What it shows.
    pub title: String,
    /// What the whiskers are, and what else one should know.
    pub subtitle: String,
    /// What grows to the right, always by factors.
    pub across: String,
    /// What grows upwards.
    pub up: String,
    /// By factors, or evenly.
    pub scale: Scale,
    /// maitred's last, so that it lies on top.
    pub lines: Vec<Line>,
    /// Heights that something should stay below, and what they are called.
    pub aims: Vec<(f64, String)>,
}

type Place = (f64, f64);

impl Lines {
    /// The drawing.
    pub fn to_svg(&self) -> String {
        let names = self.lines.iter().map(|line| width(&line.name, 13.0) * 1.06).fold(60.0, f64::max);
        let right = WIDTH - 24.0 - names - 14.0;
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let across = Axis::over(points().map(|(x, _)| *x), Scale::Log, LEFT, right);
        let heights =
            points().flat_map(|(_, y)| [y.lowest, y.highest]).chain(self.aims.iter().map(|(y, _)| *y));
        let up = Axis::over(heights, self.scale, BOTTOM, TOP);
        let mut canvas = Canvas::new(WIDTH, HEIGHT, &self.title, &self.subtitle);
        self.draw_axes(&mut canvas, across, up, right);
        let places: Vec<Vec<Place>> = self
            .lines
            .iter()
            .map(|line| line.points.iter().map(|(x, y)| (across.at(*x), up.at(y.median))).collect())
            .collect();
        let mut taken = self.draw_aims(&mut canvas, up, right, &places);
        for (n, (line, places)) in self.lines.iter().zip(&places).enumerate() {
            // Lines of one colour are told apart by dashes.
            let second = self.lines[..n].iter().any(|before| before.kind == line.kind);
            draw(&mut canvas, line, places, up, if second { "second" } else { "" });
        }
        self.draw_names(&mut canvas, &places, right);
        for (line, places) in self.lines.iter().zip(&places) {
            taken.extend(
                places.iter().zip(&line.points).map(|(place, (_, spread))| around(*place, *spread, up)),
            );
        }
        // Ours first: where there is not room for all figures, theirs are left out.
        for ours in [true, false] {
            for (line, own) in
                self.lines.iter().zip(&places).filter(|(line, _)| (line.kind == Kind::Ours) == ours)
            {
                label(&mut canvas, line, own, &places, &mut taken, (up, right));
            }
        }
        canvas.finish()
    }

    fn draw_axes(&self, canvas: &mut Canvas, across: Axis, up: Axis, right: f64) {
        for tick in up.ticks() {
            let y = up.at(tick);
            canvas.line("grid", (LEFT, y), (right, y));
            canvas.text("soft small", Anchor::End, (LEFT - 10.0, y + 4.0), &short(tick));
        }
        for tick in across.ticks() {
            let x = across.at(tick);
            canvas.line("axis", (x, BOTTOM), (x, BOTTOM + 5.0));
            canvas.text("soft small", Anchor::Middle, (x, BOTTOM + 21.0), &short(tick));
        }
        canvas.line("axis", (LEFT, BOTTOM), (right, BOTTOM));
        canvas.text("soft", Anchor::Middle, ((LEFT + right) / 2.0, HEIGHT - 18.0), &self.across);
        canvas.upright("soft", (32.0, (TOP + BOTTOM) / 2.0), &self.up);
    }

    /// Writes what each aim is called wherever no line runs; the places that takes.
    fn draw_aims(&self, canvas: &mut Canvas, up: Axis, right: f64, places: &[Vec<Place>]) -> Vec<Area> {
        let mut taken = Vec::new();
        for (height, name) in &self.aims {
            let (y, long) = (up.at(*height), width(name, 12.0));
            canvas.line("aim", (LEFT, y), (right, y));
            let at = |left: f64, over: f64| Area {
                left,
                top: y + over - 13.0,
                right: left + long,
                bottom: y + over + 3.0,
            };
            let candidates = [LEFT + 8.0, right - long - 8.0, (LEFT + right - long) / 2.0];
            let candidates = candidates.into_iter().flat_map(|left| [at(left, -6.0), at(left, 15.0)]);
            let free =
                candidates.clone().find(|area| !crossed(*area, places)).or_else(|| candidates.clone().next());
            if let Some(area) = free {
                canvas.text("soft small halo", Anchor::Start, (area.left, area.bottom - 3.0), name);
                taken.push(area);
            }
        }
        taken
    }

    /// At the end of each line, moved apart where lines end close to each other.
    fn draw_names(&self, canvas: &mut Canvas, places: &[Vec<Place>], right: f64) {
        let mut ends: Vec<(&Line, Place)> = self
            .lines
            .iter()
            .zip(places)
            .filter_map(|(line, places)| Some((line, *places.last()?)))
            .collect();
        ends.sort_by(|(_, (_, a)), (_, (_, b))| a.total_cmp(b));
        let mut heights: Vec<f64> = ends.iter().map(|(_, (_, y))| *y).collect();
        for _ in 0..100 {
            for n in 1..heights.len() {
                let short_of = APART - (heights[n] - heights[n - 1]);
                if short_of > 0.0 {
                    heights[n - 1] -= short_of / 2.0;
                    heights[n] += short_of / 2.0;
                }
            }
        }
        for ((line, (x, y)), height) in ends.into_iter().zip(heights) {
            let strong = if line.kind == Kind::Ours { "strong " } else { "" };
            if (height - y).abs() > 4.0 || right - x > 4.0 {
                canvas.line("grid", (x + 6.0, y), (right + 9.0, height));
            }
            let class = format!("{strong}{}", line.kind.class());
            canvas.text(&class, Anchor::Start, (right + 14.0, height + 4.5), &line.name);
        }
    }
}

fn draw(canvas: &mut Canvas, line: &Line, places: &[Place], up: Axis, dashes: &str) {
    let class = line.kind.class();
    canvas.path(&format!("{class} {dashes}"), places);
    for (place, (_, spread)) in places.iter().zip(&line.points) {
        let (low, high) = (up.at(spread.lowest), up.at(spread.highest));
        if low - high > SEEN {
            canvas.line("whisker", (place.0, low), (place.0, high));
        }
        canvas.dot(class, *place);
    }
}

/// Writes the value of each point where there is room for it.
fn label(
    canvas: &mut Canvas,
    line: &Line,
    own: &[Place],
    all: &[Vec<Place>],
    taken: &mut Vec<Area>,
    (up, right): (Axis, f64),
) {
    for ((x, y), (_, spread)) in own.iter().zip(&line.points) {
        let text = short(spread.median);
        let long = width(&text, 12.0);
        let at = |dx: f64, dy: f64| {
            let left = x + dx - long / 2.0;
            Area { left: left - 1.0, top: y + dy - 6.0, right: left + long + 1.0, bottom: y + dy + 6.0 }
        };
        let aside = long / 2.0 + 10.0;
        let (above, below) = (up.at(spread.highest) - y, up.at(spread.lowest) - y);
        let (above, below) = if below - above > SEEN { (above, below) } else { (0.0, 0.0) };
        let upright = [at(0.0, above.min(-4.0) - 10.0), at(0.0, below.max(5.0) + 10.0)];
        let slanted = [at(-aside, -8.0), at(aside, 9.0), at(-aside, 9.0), at(aside, -8.0)];
        let candidates = upright.into_iter().chain(slanted);
        let free = candidates.into_iter().find(|area| {
            area.left > LEFT + 2.0
                && area.right < right + 8.0
                && area.bottom < BOTTOM - 2.0
                && !taken.iter().any(|other| other.meets(*area))
                && !crossed(*area, all)
        });
        if let Some(area) = free {
            let class = format!("small halo {}", line.kind.class());
            canvas.text(&class, Anchor::Middle, ((area.left + area.right) / 2.0, area.bottom - 1.5), &text);
            taken.push(area);
        }
    }
}

fn crossed(area: Area, lines: &[Vec<Place>]) -> bool {
    lines.iter().any(|places| places.windows(2).any(|pair| area.is_crossed(pair[0], pair[1])))
}

/// What a point and its whiskers take.
fn around((x, y): Place, spread: Spread, up: Axis) -> Area {
    let (top, bottom) = (up.at(spread.highest), up.at(spread.lowest));
    let (top, bottom) = if bottom - top > SEEN { (top, bottom) } else { (y, y) };
    Area { left: x - 4.0, top: top.min(y - 4.0), right: x + 4.0, bottom: bottom.max(y + 4.0) }
}
