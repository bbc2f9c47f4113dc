//! What is drawn on: text, lines and boxes, and how they look in either theme.

use std::fmt::{Display, Write as _};

const STYLE: &str = "\
text{font-family:-apple-system,BlinkMacSystemFont,'Segoe UI','Noto Sans',Helvetica,Arial,sans-serif;font-size:13px;fill:#1f2328}\
.title{font-size:17px;font-weight:600}.soft{fill:#59636e}.small{font-size:12px}.strong{font-weight:600}\
.paper{fill:#fff;stroke:#d1d9e0}.grid{stroke:#e4e8ec}.axis{stroke:#818b98}.aim{stroke:#59636e;stroke-dasharray:2 4}\
.ours{fill:#d4490c;stroke:#d4490c}.other{fill:#98a2ad;stroke:#98a2ad}.limit{fill:#f6f8fa;stroke:#98a2ad;stroke-dasharray:4 3}\
.whisker{stroke:#1f2328;stroke-opacity:.55;fill:none}.path{fill:none!important;stroke-width:2.25;stroke-linejoin:round;stroke-linecap:round}\
.second{stroke-dasharray:7 5}.halo{stroke:#fff;stroke-width:4;stroke-linejoin:round;paint-order:stroke}text.ours{fill:#b83c06;stroke:none}\
text.halo.ours{stroke:#fff}text.other,text.limit{fill:#59636e;stroke:none}text.halo.other,text.halo.limit{stroke:#fff;stroke-dasharray:none}\
@media (prefers-color-scheme:dark){text{fill:#f0f6fc}.soft{fill:#9198a1}.paper{fill:#0d1117;stroke:#3d444d}\
.grid{stroke:#21262d}.axis{stroke:#656c76}.aim{stroke:#9198a1}.ours{fill:#ff8a4c;stroke:#ff8a4c}.other{fill:#6e7781;stroke:#6e7781}\
.limit{fill:#151b23;stroke:#6e7781}.whisker{stroke:#f0f6fc}.halo,text.halo.ours,text.halo.other,text.halo.limit{stroke:#0d1117}\
text.ours{fill:#ff9d66}text.other,text.limit{fill:#9198a1}.path.other,.path.limit{stroke:#818b98}}";

/// Where a text is fastened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// Part of a drawing that something stands on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Area {
    pub left: f64,
    pub top: f64,
    pub right: f64,
    pub bottom: f64,
}

impl Area {
    pub(super) fn meets(self, other: Self) -> bool {
        self.left < other.right
            && other.left < self.right
            && self.top < other.bottom
            && other.top < self.bottom
    }

    /// Whether a straight line between two points runs through it, looked at every few pixels.
    pub(super) fn is_crossed(self, from: (f64, f64), to: (f64, f64)) -> bool {
        (0..=64).any(|step| {
            let part = f64::from(step) / 64.0;
            let (x, y) = (from.0 + (to.0 - from.0) * part, from.1 + (to.1 - from.1) * part);
            (self.left..=self.right).contains(&x) && (self.top..=self.bottom).contains(&y)
        })
    }
}

/// How wide a text will be, more or less: whatever font there is, digits and letters take about this much.
pub(super) fn width(text: &str, size: f64) -> f64 {
    let em = |letter: char| match letter {
        'i' | 'j' | 'l' | '.' | ',' | ':' | '|' | '\'' | ' ' => 0.3,
        'f' | 't' | 'r' | '(' | ')' | '-' => 0.38,
        'm' | 'w' | 'M' | 'W' | '—' => 0.87,
        'A'..='Z' | '×' | '≤' | '≥' | '+' => 0.66,
        _ => 0.57,
    };
    text.chars().map(em).sum::<f64>() * size
}

/// A drawing under way.
pub(super) struct Canvas {
    width: f64,
    height: f64,
    described: String,
    body: String,
}

impl Canvas {
    /// An empty one, with a frame and a title.
    pub(super) fn new(width: f64, height: f64, title: &str, subtitle: &str) -> Self {
        let described = format!("{title}. {subtitle}");
        let mut canvas = Self { width, height, described, body: String::new() };
        let (right, bottom) = (width - 1.0, height - 1.0);
        canvas.rect("paper", Area { left: 0.5, top: 0.5, right: right + 0.5, bottom: bottom + 0.5 }, 8.0);
        canvas.text("title", Anchor::Start, (24.0, 36.0), title);
        canvas.text("soft", Anchor::Start, (24.0, 57.0), subtitle);
        canvas
    }

    pub(super) fn text(&mut self, class: &str, anchor: Anchor, (x, y): (f64, f64), text: &str) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        self.push(format_args!(
            "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\"{anchor}>{}</text>",
            escaped(text)
        ));
    }

    /// A text that is read from below, around its middle.
    pub(super) fn upright(&mut self, class: &str, (x, y): (f64, f64), text: &str) {
        let text = escaped(text);
        self.push(format_args!(
            "<text class=\"{class}\" transform=\"translate({x:.1} {y:.1}) rotate(-90)\" text-anchor=\"middle\">{text}</text>"
        ));
    }

    pub(super) fn line(&mut self, class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
        self.push(format_args!(
            "<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>"
        ));
    }

    pub(super) fn rect(&mut self, class: &str, area: Area, radius: f64) {
        let Area { left, top, right, bottom } = area;
        let (width, height) = (right - left, bottom - top);
        self.push(format_args!(
            "<rect class=\"{class}\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"{radius}\"/>"
        ));
    }

    pub(super) fn path(&mut self, class: &str, points: &[(f64, f64)]) {
        let points: Vec<_> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        self.push(format_args!("<polyline class=\"path {class}\" points=\"{}\"/>", points.join(" ")));
    }

    pub(super) fn dot(&mut self, class: &str, (x, y): (f64, f64)) {
        self.push(format_args!("<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\"/>"));
    }

    fn push(&mut self, element: impl Display) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.body, "{element}");
    }

    pub(super) fn finish(self) -> String {
        let Self { width, height, described, body } = self;
        let described = escaped(&described);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{described}\">\n<style>{STYLE}</style>\n{body}</svg>\n"
        )
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
