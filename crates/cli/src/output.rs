//! Writing to the terminal, the pipe, or wherever it goes, without ever panicking over it.
//!
//! The macros of the standard library panic when a pipe is closed, as `| head` does. Here that is an ordinary
//! end. Text that came from somewhere else may hold codes that move a terminal's cursor or change its title;
//! for people it is printed with those escaped.

use crate::failure::Failure;
use crate::paint::{Paint, Tone};
use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, ErrorKind, Write};

/// Writes what was asked for to standard output.
pub(crate) fn print(text: &[u8]) -> Result<(), Failure> {
    let mut output = io::stdout().lock();
    output.write_all(text).and_then(|()| output.flush()).map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => Failure::NobodyReads,
        _ => Failure::Failed(format!("standard output: cannot be written: {error}")),
    })
}

/// Writes one JSON value as one line.
pub(crate) fn print_json(value: &impl serde::Serialize) -> Result<(), Failure> {
    let mut line = serde_json::to_vec(value)
        .map_err(|error| Failure::Failed(format!("the answer cannot be written as JSON: {error}")))?;
    line.push(b'\n');
    print(&line)
}

/// Says something beside the output, on standard error. If nobody hears it, so be it.
pub(crate) fn note(kind: &str, message: &str) {
    let tone = match kind {
        "error" => Tone::Bad,
        "warning" => Tone::Doubtful,
        _ => Tone::Strong,
    };
    let kind = Paint::for_errors().put(tone, kind);
    let _ = writeln!(io::stderr().lock(), "{kind}: {message}");
}

/// A stranger's text for people: control characters are escaped, so that it cannot play with the terminal.
pub(crate) fn harmless(text: &str) -> Cow<'_, str> {
    let is_harmful = |letter: char| letter.is_control() || is_direction(letter);
    if !text.contains(is_harmful) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 8);
    for letter in text.chars() {
        match letter {
            '\n' => escaped.push_str("\\n"),
            '\r' => escaped.push_str("\\r"),
            '\t' => escaped.push_str("\\t"),
            // Writing to a `String` cannot fail.
            letter if is_harmful(letter) => drop(write!(escaped, "\\u{:04x}", u32::from(letter))),
            letter => escaped.push(letter),
        }
    }
    Cow::Owned(escaped)
}

/// Marks that turn the direction of writing, and so the meaning of a line, unseen.
fn is_direction(letter: char) -> bool {
    matches!(letter, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_play_with_a_terminal_is_escaped() {
        assert!(matches!(harmless("plain äöü €"), Cow::Borrowed(_)));
        assert_eq!(harmless("a\x1b[2Jb\x07\u{9b}\u{202e}"), "a\\u001b[2Jb\\u0007\\u009b\\u202e");
        assert_eq!(harmless("a\nb\tc\r"), "a\\nb\\tc\\r");
    }
}
