//! The report as one page that needs nothing else: no script, no font, no other file.

use std::fmt::Write;

use crate::Outcome;
use crate::report::{Report, grouped, told};

const STYLE: &str = include_str!("page.css");
const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 200.0;
const LEFT: f64 = 56.0;
const BOTTOM: f64 = 24.0;

/// The page.
pub fn page(report: &Report) -> String {
    let exact = report.exactness.is_exact();
    let verdict = if exact { "Everybody was treated right." } else { "Somebody was not treated right." };
    let title = format!("Rehearsal: {}", escaped(&report.venue));
    let slots = match &report.slots[..] {
        [slot] => escaped(slot),
        slots => format!("{} slots", slots.len()),
    };
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>{title}</title><style>{STYLE}</style></head><body>\n\
         <h1>{title}</h1><p class=\"about\">{slots} · {} guests · seed {}</p>\n<p class=\"verdict {}\">{verdict}</p>\n",
        grouped(report.guests),
        report.seed,
        if exact { "good" } else { "bad" },
    );
    tiles(report, &mut page);
    page += "<section><h2>What must be zero</h2><ul class=\"exact\">";
    for (name, figure) in report.exactness.figures() {
        let class = if figure == 0 { "good" } else { "bad" };
        let _ = write!(page, "<li class=\"{class}\"><b>{}</b> {name}</li>", grouped(figure));
    }
    page += "</ul></section>\n";
    latencies(report, &mut page);
    let _ = write!(
        page,
        "<section><h2>How long people waited</h2>{}<p class=\"key\"><i class=\"seated\"></i>seated <i class=\"others\"></i>everybody else</p></section>\n\
         <section><h2>People in line</h2>{}</section>\n\
         <section><h2>Answers a second</h2>{}<p class=\"key\"><i class=\"seated\"></i>seated <i class=\"others\"></i>everybody else</p></section>\n",
        waits(report),
        line(report),
        pace(report)
    );
    if !report.strange.is_empty() {
        page += "<section><h2>Answers that were not understood</h2>";
        report.strange.iter().for_each(|strange| {
            let _ = write!(page, "<pre>{}</pre>", escaped(strange));
        });
        page += "</section>";
    }
    page + "</body></html>\n"
}

fn tiles(report: &Report, page: &mut String) {
    let all = report.latency.get("all").copied().unwrap_or_default();
    let sold_out = report.sold_out_after.map_or_else(|| "not sold out".into(), |after| told(after * 1e3));
    let tiles = [
        ("everybody knew after", told(report.seconds * 1e3)),
        ("sold out after", sold_out),
        ("answers a second", grouped(format!("{:.0}", report.pace))),
        ("seated", grouped(report.count(Outcome::Seated))),
        ("refused", grouped(report.count(Outcome::Refused))),
        ("half knew within", told(all.p50)),
        ("99 % knew within", told(all.p99)),
    ];
    page.push_str("<div class=\"tiles\">");
    for (name, figure) in tiles {
        let _ = write!(page, "<div><b>{figure}</b><span>{name}</span></div>");
    }
    page.push_str("</div>\n");
}

fn latencies(report: &Report, page: &mut String) {
    page.push_str(
        "<section><h2>From coming to knowing</h2><table><tr><th></th><th>guests</th><th>p50</th><th>p90</th>\
         <th>p99</th><th>longest</th></tr>",
    );
    for (name, count, [p50, p90, p99, max]) in report.rows() {
        let _ = write!(
            page,
            "<tr><th>{name}</th><td>{count}</td><td>{p50}</td><td>{p90}</td><td>{p99}</td><td>{max}</td></tr>"
        );
    }
    page.push_str("</table></section>\n");
}

/// A chart with its axes: what is drawn inside, the highest value, and words under the axis with their places between 0 and 1.
fn chart(inside: &str, highest: f64, words: &[(f64, String)]) -> String {
    let mut svg = format!("<svg viewBox=\"0 0 {WIDTH} {}\" role=\"img\">", HEIGHT + BOTTOM + 8.0);
    for share in [0.0, 0.5, 1.0] {
        let y = HEIGHT - share * (HEIGHT - 12.0);
        let value = grouped(format!("{:.0}", highest * share));
        let _ = write!(
            svg,
            "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{WIDTH}\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{value}</text>",
            LEFT - 6.0,
            y + 4.0
        );
    }
    svg += inside;
    for (share, word) in words {
        let x = LEFT + share * (WIDTH - LEFT);
        let anchor = if *share > 0.97 { "end" } else { "middle" };
        let y = HEIGHT + 18.0;
        let _ = write!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{word}</text>");
    }
    svg + "</svg>"
}

fn up(value: f64, highest: f64) -> f64 {
    value / highest.max(1.0) * (HEIGHT - 12.0)
}

fn waits(report: &Report) -> String {
    let bars: Vec<_> = report.histogram.iter().map(|(_, seated, others)| (*seated, *others)).collect();
    let every = report.histogram.len().div_ceil(8).max(1);
    let words = report.histogram.iter().enumerate().filter(|(n, _)| n % every == 0).map(|(n, (upto, ..))| {
        ((n as f64 + 0.5) / report.histogram.len() as f64, format!("≤ {}", told(upto * 1e3)))
    });
    bars_of(&bars, 1.0, &words.collect::<Vec<_>>())
}

fn pace(report: &Report) -> String {
    let bars: Vec<_> = report.moments.iter().map(|moment| (moment.seated, moment.others)).collect();
    bars_of(&bars, report.step, &seconds(report))
}

/// Bars of two parts each, counted for so many seconds.
fn bars_of(bars: &[(usize, usize)], seconds: f64, words: &[(f64, String)]) -> String {
    let value = |count: usize| count as f64 / seconds;
    let highest = bars.iter().map(|(a, b)| value(a + b)).fold(0.0, f64::max);
    let width = (WIDTH - LEFT) / bars.len().max(1) as f64;
    let mut inside = String::new();
    for (n, (seated, others)) in bars.iter().enumerate() {
        let (x, low, high) =
            (LEFT + n as f64 * width, up(value(*seated), highest), up(value(*others), highest));
        let wide = (width - 1.0).max(0.5);
        for (class, height, from) in [("seated", low, 0.0), ("others", high, low)] {
            if height > 0.0 {
                let y = HEIGHT - from - height;
                let _ = write!(
                    inside,
                    "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{wide:.1}\" height=\"{height:.1}\"/>"
                );
            }
        }
    }
    chart(&inside, highest, words)
}

fn line(report: &Report) -> String {
    let highest = report.moments.iter().map(|moment| moment.waiting).max().unwrap_or(0) as f64;
    let width = (WIDTH - LEFT) / report.moments.len().max(1) as f64;
    let mut path = format!("M{LEFT} {HEIGHT}");
    for (n, moment) in report.moments.iter().enumerate() {
        let (x, y) = (LEFT + (n as f64 + 1.0) * width, HEIGHT - up(moment.waiting as f64, highest));
        let _ = write!(path, "L{x:.1} {y:.1}");
    }
    let _ = write!(path, "L{WIDTH} {HEIGHT}Z");
    chart(&format!("<path class=\"area\" d=\"{path}\"/>"), highest, &seconds(report))
}

/// Words under an axis of time.
fn seconds(report: &Report) -> Vec<(f64, String)> {
    let whole = report.step * report.moments.len() as f64;
    [0.25, 0.5, 0.75, 1.0].map(|share| (share, told(whole * share * 1e3))).to_vec()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
