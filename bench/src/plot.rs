//! The figures as a picture: horizontal bars, group by group, in one self-contained SVG file.
//!
//! A bar ends at the median and a thin line runs from the minimum to the maximum. Each group has a scale of its
//! own, from nothing to its longest median, because a lock and a ring seldom fit on one; a maximum beyond the
//! scale is cut off there. Written by hand: a plotting library is larger than this whole bench.
//!
//! Not here: the figures themselves (`measure.rs`).

use crate::measure::{Row, is_ours};
use std::fmt::Write;

const WIDTH: f64 = 860.0;
const LABEL_WIDTH: f64 = 190.0;
const BAR_WIDTH_MAX: f64 = 520.0;
const BAR_HEIGHT: f64 = 14.0;
const LINE_HEIGHT: f64 = 20.0;
const MARGIN: f64 = 20.0;

const OURS_COLOUR: &str = "#1a7f8e";
const PEER_COLOUR: &str = "#9aa5b1";
const LIMIT_COLOUR: &str = "#d9dee3";

/// The whole picture; `conditions` says under which the figures were taken and stands at its foot.
pub(crate) fn svg(rows: &[Row], conditions: &str) -> String {
    let mut body = String::new();
    let mut y = MARGIN;
    for group in rows.chunk_by(|a, b| a.group == b.group) {
        y = draw_group(&mut body, group, y);
    }
    for line in conditions.lines() {
        y += LINE_HEIGHT;
        text(&mut body, MARGIN, y, "start", "foot", line);
    }
    let height = y + MARGIN;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         viewBox=\"0 0 {WIDTH} {height}\">\n\
         <style>text {{ font: 13px sans-serif; fill: #222 }} .title {{ font-weight: bold }} \
         .ours {{ font-weight: bold; fill: {OURS_COLOUR} }} .foot {{ font-size: 11px; fill: #666 }}</style>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n{body}</svg>\n"
    )
}

/// Draws one group from `top` downwards and gives where the next may begin.
fn draw_group(body: &mut String, rows: &[Row], top: f64) -> f64 {
    let Some(first) = rows.first() else { return top };
    let longest = rows.iter().map(|row| row.median).fold(f64::MIN_POSITIVE, f64::max);
    let scale = BAR_WIDTH_MAX / longest;
    let mut y = top + LINE_HEIGHT;
    text(body, MARGIN, y, "start", "title", &format!("{} ({})", first.group, first.unit));
    for row in rows {
        y += LINE_HEIGHT;
        draw_row(body, row, y, scale);
    }
    y + LINE_HEIGHT
}

fn draw_row(body: &mut String, row: &Row, baseline: f64, scale: f64) {
    let ours = is_ours(row.peer);
    let colour = match row.peer {
        _ if ours => OURS_COLOUR,
        peer if peer.starts_with('~') => LIMIT_COLOUR,
        _ => PEER_COLOUR,
    };
    let class = if ours { "ours" } else { "peer" };
    let left = MARGIN + LABEL_WIDTH;
    let at = |figure: f64| left + (figure * scale).min(BAR_WIDTH_MAX);
    let (top, middle) = (baseline - BAR_HEIGHT + 3.0, baseline - BAR_HEIGHT / 2.0 + 3.0);
    text(body, left - 8.0, baseline, "end", class, row.peer);
    let width = at(row.median) - left;
    // Writing to a `String` cannot fail.
    let _ = writeln!(
        body,
        "<rect x=\"{left}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{BAR_HEIGHT}\" fill=\"{colour}\"/>\n\
         <line x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{middle:.1}\" y2=\"{middle:.1}\" stroke=\"#444\"/>",
        at(row.min),
        at(row.max)
    );
    // To the right of the bar and of its line, so that the figure is never struck through.
    text(body, at(row.max.max(row.median)) + 6.0, baseline, "start", class, &format!("{:.1}", row.median));
}

fn text(body: &mut String, x: f64, y: f64, anchor: &str, class: &str, words: &str) {
    let words = words.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let _ = writeln!(
        body,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" class=\"{class}\">{words}</text>"
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Better;

    fn rows() -> Vec<Row> {
        let row = |group, peer, median| Row {
            group,
            peer,
            unit: "ns/item",
            better: Better::Lower,
            median,
            min: median * 0.9,
            max: median * 5.0,
            rounds: 9,
            beside: Vec::new(),
        };
        vec![
            row("ring-1", "millpond", 10.0),
            row("ring-1", "Mutex<VecDeque>", 40.0),
            row("gate-1p1c", "millpond", 20.0),
        ]
    }

    #[test]
    fn the_picture_is_well_formed_xml_whatever_the_names_hold() {
        let picture = svg(&rows(), "a < b & c > d");
        let document = roxmltree::Document::parse(&picture).unwrap();
        let words: Vec<_> = document.descendants().filter_map(|node| node.text()).collect();
        assert!(words.contains(&"Mutex<VecDeque>"));
        assert!(words.contains(&"a < b & c > d"));
    }

    #[test]
    fn every_row_has_a_bar_and_only_ours_has_our_colour() {
        let picture = svg(&rows(), "");
        let document = roxmltree::Document::parse(&picture).unwrap();
        let bars =
            |colour| document.descendants().filter(|node| node.attribute("fill") == Some(colour)).count();
        assert_eq!(bars(OURS_COLOUR), 2);
        assert_eq!(bars(PEER_COLOUR), 1);
    }

    #[test]
    fn nothing_is_drawn_past_the_right_edge() {
        let picture = svg(&rows(), "");
        let document = roxmltree::Document::parse(&picture).unwrap();
        let number =
            |node: roxmltree::Node<'_, '_>, name| node.attribute(name).and_then(|x| x.parse::<f64>().ok());
        for node in document.descendants() {
            let right = number(node, "x2").or_else(|| Some(number(node, "x")? + number(node, "width")?));
            assert!(right.is_none_or(|right| right < WIDTH), "{node:?}");
        }
    }

    #[test]
    fn a_run_without_rows_still_gives_a_picture() {
        assert!(roxmltree::Document::parse(&svg(&[], "")).is_ok());
    }
}
