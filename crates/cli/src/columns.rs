//! Rows with columns that stand below each other: names left, numbers right, no line wider than it must be.
//!
//! Widths count letters and not colours, so a table looks the same with and without them.

use crate::paint::{Paint, Tone};

/// What stands above a column, and to which side its cells stand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heading {
    text: &'static str,
    is_left: bool,
}

impl Heading {
    /// For names.
    pub(crate) const fn left(text: &'static str) -> Self {
        Self { text, is_left: true }
    }

    /// For numbers.
    pub(crate) const fn right(text: &'static str) -> Self {
        Self { text, is_left: false }
    }
}

/// One cell.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cell {
    pub(crate) text: String,
    pub(crate) tone: Tone,
}

impl Cell {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), tone: Tone::Plain }
    }

    pub(crate) fn toned(tone: Tone, text: impl Into<String>) -> Self {
        Self { text: text.into(), tone }
    }
}

/// The table, with its headings and a rule below them.
pub(crate) fn table(headings: &[Heading], rows: &[Vec<Cell>], paint: Paint) -> String {
    let widths: Vec<usize> = headings
        .iter()
        .enumerate()
        .map(|(at, heading)| {
            rows.iter().map(|row| width(&row[at].text)).chain([width(heading.text)]).max().unwrap_or(0)
        })
        .collect();
    let mut text = String::new();
    let names: Vec<Cell> = headings.iter().map(|heading| Cell::toned(Tone::Strong, heading.text)).collect();
    let rules: Vec<Cell> = widths.iter().map(|width| Cell::toned(Tone::Faint, "─".repeat(*width))).collect();
    for row in [&names, &rules].into_iter().chain(rows) {
        line(&mut text, headings, &widths, row, paint);
    }
    text
}

/// Rows without headings, all columns left.
pub(crate) fn list(rows: &[Vec<Cell>], paint: Paint) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let headings = vec![Heading::left(""); count];
    let widths: Vec<usize> = (0..count)
        .map(|at| rows.iter().filter_map(|row| row.get(at)).map(|cell| width(&cell.text)).max().unwrap_or(0))
        .collect();
    let mut text = String::new();
    for row in rows {
        line(&mut text, &headings, &widths, row, paint);
    }
    text
}

fn line(text: &mut String, headings: &[Heading], widths: &[usize], row: &[Cell], paint: Paint) {
    for (at, cell) in row.iter().enumerate() {
        let padding = " ".repeat(widths[at] - width(&cell.text));
        let shown = paint.put(cell.tone, &cell.text);
        if at > 0 {
            text.push_str("  ");
        }
        text.push_str(&if headings[at].is_left { shown + &padding } else { padding + &shown });
    }
    // Nobody sees spaces at the end, but whoever copies a line has them.
    text.truncate(text.trim_end_matches(' ').len());
    text.push('\n');
}

fn width(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_left_and_numbers_right() {
        let headings = [Heading::left("name"), Heading::right("n"), Heading::left("about")];
        let row = |name: &str, n: &str, about: &str| [name, n, about].map(Cell::new).to_vec();
        let text = table(&headings, &[row("ü", "100", "x"), row("longer", "7", "")], Paint::NONE);
        assert_eq!(text, "name      n  about\n──────  ───  ─────\nü       100  x\nlonger    7\n");
        assert_eq!(list(&[row("a", "b", "c"), row("dd", "e", "")], Paint::NONE), "a   b  c\ndd  e\n");
    }
}
