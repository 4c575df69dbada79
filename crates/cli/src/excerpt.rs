//! A line of somebody's text, with a mark below the place that is meant.
//!
//! ```text
//!   3 | spin = 20
//!     |        ^
//! ```
//!
//! What could play with the terminal is escaped, and of a long line only what is around the place is shown.

use crate::output::harmless;
use crate::paint::{Paint, Tone};

/// How many letters of a line are shown.
const SHOWN_MAX: usize = 100;

/// The line of the text, and the mark. Both numbers count from 1; a place beyond the end is taken for the
/// end. `number` is what the line is called, which is another number if the text is itself a line of a file.
pub(crate) fn excerpt(text: &[u8], line: usize, number: usize, column: usize, paint: Paint) -> String {
    let number = number.to_string();
    let text = String::from_utf8_lossy(text);
    let line = text.lines().nth(line.saturating_sub(1)).unwrap_or_default();
    let line: Vec<char> = line.trim_start_matches('\u{feff}').chars().collect();
    let at = column.saturating_sub(1).min(line.len());
    let begin = at.saturating_sub(SHOWN_MAX / 2);
    let shown: String = line.iter().skip(begin).take(SHOWN_MAX).collect();
    let before: String = line[begin..at].iter().collect();
    // What is escaped becomes several letters, so the mark stands behind those.
    let indent = " ".repeat(harmless(&before).chars().count());
    let margin = paint.put(Tone::Faint, &format!("{} |", " ".repeat(number.len())));
    let number = paint.put(Tone::Faint, &format!("{number} |"));
    let mark = paint.put(Tone::Bad, "^");
    format!("  {number} {}\n  {margin} {indent}{mark}\n", harmless(&shown))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_stands_below_the_place() {
        let at = |text: &str, line, column| excerpt(text.as_bytes(), line, line, column, Paint::NONE);
        assert_eq!(at("a\nbü = x\r\n", 2, 6), "  2 | bü = x\n    |      ^\n");
        assert_eq!(at("\tx", 1, 2), "  1 | \\tx\n    |   ^\n");
        assert_eq!(at("ab", 1, 99), "  1 | ab\n    |   ^\n");
        assert_eq!(at("", 7, 1), "  7 | \n    | ^\n");
        assert_eq!(excerpt(b"{x", 1, 17, 2, Paint::NONE), "  17 | {x\n     |  ^\n");
        let long = "x".repeat(1000);
        assert_eq!(at(&long, 1, 500), format!("  1 | {}\n    | {}^\n", "x".repeat(100), " ".repeat(50)));
    }
}
