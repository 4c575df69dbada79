//! The waits as a picture: for each strategy a curve of how many tasks waited longer than a time, in one SVG file.
//!
//! Both axes are logarithmic, because what matters lies in the tail: one step down is ten times fewer tasks. The lower
//! and the further left a curve, the better. Written by hand, as the bench's picture is: a plotting library is larger
//! than this whole program.
//!
//! Not here: the figures (`table.rs`).

use super::{Plan, Run, table};
use crate::units::time;
use millpond_policy::histogram::{Histogram, upper_bound};
use std::fmt::Write;

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 560.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 240.0;
const TOP: f64 = 70.0;
const BOTTOM: f64 = 80.0;
const LINE_HEIGHT: f64 = 20.0;

/// Colours that can be told apart, also by those who see fewer of them; the dashes help.
const COLOURS: &[&str] =
    &["#1a7f8e", "#d1495b", "#edae49", "#30638e", "#6a4c93", "#5b8c5a", "#b56576", "#888888"];
const DASHES: &[&str] = &["none", "7 3", "2 3"];

/// The picture spans at most so many steps of ten in time: what waits a ten-thousandth of the longest may as well not.
const DECADES_MAX: i32 = 4;

/// From values to places in the picture.
#[derive(Clone, Copy, Debug)]
struct Scale {
    /// Powers of ten, in nanoseconds, at the left and the right edge.
    left: i32,
    right: i32,
    /// The power of ten at the foot: −5 is one task in 100 000.
    foot: i32,
}

impl Scale {
    fn of(runs: &[Run]) -> Self {
        let longest = runs.iter().filter_map(|run| run.outcome.waits.max()).max().unwrap_or(1).max(1) as f64;
        let shortest =
            runs.iter().filter_map(|run| shortest_wait(&run.outcome.waits)).min().unwrap_or(1).max(1) as f64;
        let right = (longest.log10().ceil() as i32).max(1);
        let left = (shortest.log10().floor() as i32).clamp(right - DECADES_MAX, right - 1);
        let tasks = runs.iter().map(|run| run.outcome.tasks).max().unwrap_or(1).max(10) as f64;
        Self { left, right, foot: -(tasks.log10().floor() as i32) }
    }

    fn x(self, nanos: f64) -> f64 {
        let share = (nanos.log10() - f64::from(self.left)) / f64::from(self.right - self.left);
        LEFT + share.clamp(0.0, 1.0) * (WIDTH - LEFT - RIGHT)
    }

    fn y(self, share: f64) -> f64 {
        let share = share.log10() / f64::from(self.foot);
        TOP + share.clamp(0.0, 1.0) * (HEIGHT - TOP - BOTTOM)
    }
}

/// The whole picture.
pub(super) fn svg(plan: &Plan, runs: &[Run]) -> String {
    let scale = Scale::of(runs);
    let mut body = String::new();
    text(&mut body, (LEFT, 28.0), "start", "title", "How many tasks wait longer than a time");
    text(&mut body, (LEFT, 48.0), "start", "small", &table::describe(&plan.scenario));
    draw_grid(&mut body, scale);
    for (at, run) in runs.iter().enumerate() {
        draw_curve(&mut body, scale, at, run);
        draw_legend(&mut body, at, run);
    }
    text(&mut body, (LEFT, HEIGHT - 12.0), "start", "small", &plan.command);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{HEIGHT}\" \
         viewBox=\"0 0 {WIDTH} {HEIGHT}\">\n\
         <style>text {{ font: 13px sans-serif; fill: #222 }} .title {{ font-size: 17px; font-weight: bold }} \
         .small {{ font-size: 11px; fill: #666 }} .grid {{ stroke: #e3e6e9 }}</style>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n{body}</svg>\n"
    )
}

fn draw_grid(body: &mut String, scale: Scale) {
    let (right, foot) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
    for power in scale.left..=scale.right {
        let nanos = 10_f64.powi(power);
        let x = scale.x(nanos);
        grid_line(body, (x, TOP), (x, foot));
        text(body, (x, foot + 18.0), "middle", "", &time(nanos).replace(".00", "").replace(".0 ", " "));
    }
    for power in scale.foot..=0 {
        let y = scale.y(10_f64.powi(power));
        grid_line(body, (LEFT, y), (right, y));
        text(body, (LEFT - 8.0, y + 4.0), "end", "", &percent(power));
    }
    text(body, ((LEFT + right) / 2.0, foot + 40.0), "middle", "", "wait");
    let middle = (TOP + foot) / 2.0;
    // Writing to a `String` cannot fail.
    let _ = writeln!(
        body,
        "<text x=\"16\" y=\"{middle}\" text-anchor=\"middle\" transform=\"rotate(-90 16 {middle})\">tasks that wait \
         longer</text>"
    );
}

/// The share of tasks that waited longer than the end of each bucket, as steps from left to right.
fn draw_curve(body: &mut String, scale: Scale, at: usize, run: &Run) {
    let waits = &run.outcome.waits;
    let mut points = String::new();
    let mut longer = waits.count();
    let share = |longer: u64| longer as f64 / waits.count().max(1) as f64;
    // Buckets that fall on the same tenth of a pixel, as many do, need one point only.
    let mut last = (f64::NAN, f64::NAN);
    let mut point = |nanos: f64, longer: u64| {
        let place = ((scale.x(nanos) * 10.0).round() / 10.0, (scale.y(share(longer)) * 10.0).round() / 10.0);
        if place != last {
            let _ = write!(points, "{},{} ", place.0, place.1);
            last = place;
        }
    };
    let begin = 10_f64.powi(scale.left);
    for (bucket, count) in waits.counts().iter().enumerate().filter(|(_, count)| **count > 0) {
        let end = upper_bound(bucket).min(waits.max().unwrap_or(u64::MAX)) as f64;
        longer -= count;
        if end <= begin {
            continue;
        }
        point(end, longer);
        if share(longer) <= 10_f64.powi(scale.foot) {
            break;
        }
    }
    let begun = share(waits.count() - not_longer(waits, begin));
    let _ = writeln!(
        body,
        "<polyline points=\"{:.1},{:.1} {}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\" stroke-dasharray=\"{}\"/>",
        LEFT,
        scale.y(begun.max(f64::MIN_POSITIVE)),
        points.trim_end(),
        colour(at),
        dash(at)
    );
}

fn draw_legend(body: &mut String, at: usize, run: &Run) {
    let (x, y) = (WIDTH - RIGHT + 18.0, TOP + 6.0 + at as f64 * 2.0 * LINE_HEIGHT);
    let _ = writeln!(
        body,
        "<line x1=\"{x}\" x2=\"{}\" y1=\"{y}\" y2=\"{y}\" stroke=\"{}\" stroke-width=\"2\" stroke-dasharray=\"{}\"/>",
        x + 28.0,
        colour(at),
        dash(at)
    );
    text(body, (x + 36.0, y + 4.0), "start", "", &run.outcome.strategy);
    let waits = run.outcome.waits.percentiles();
    let figures = format!("p99 {}, mean {}", time(waits.p99 as f64), time(run.outcome.wait_mean_ns));
    text(body, (x + 36.0, y + 20.0), "start", "small", &figures);
}

/// The shortest wait that is not nothing, by its bucket.
fn shortest_wait(waits: &Histogram) -> Option<u64> {
    waits
        .counts()
        .iter()
        .enumerate()
        .skip(1)
        .find(|(_, count)| **count > 0)
        .map(|(bucket, _)| upper_bound(bucket))
}

/// Tasks that waited for a time up to this, by the ends of their buckets.
fn not_longer(waits: &Histogram, nanos: f64) -> u64 {
    let counts = waits.counts().iter().enumerate();
    counts.take_while(|(bucket, _)| upper_bound(*bucket) as f64 <= nanos).map(|(_, count)| count).sum()
}

/// `10 %` for −1.
fn percent(power: i32) -> String {
    match power {
        -2..=0 => format!("{} %", 10_u32.pow((power + 2) as u32)),
        _ => format!("{:.*} %", (-2 - power) as usize, 10_f64.powi(power + 2)),
    }
}

fn colour(at: usize) -> &'static str {
    COLOURS[at % COLOURS.len()]
}

fn dash(at: usize) -> &'static str {
    DASHES[at / COLOURS.len() % DASHES.len()]
}

fn grid_line(body: &mut String, from: (f64, f64), to: (f64, f64)) {
    let _ = writeln!(
        body,
        "<line class=\"grid\" x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\"/>",
        from.0, from.1, to.0, to.1
    );
}

fn text(body: &mut String, at: (f64, f64), anchor: &str, class: &str, words: &str) {
    let words = words.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let _ = writeln!(
        body,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\" class=\"{class}\">{words}</text>",
        at.0, at.1
    );
}
