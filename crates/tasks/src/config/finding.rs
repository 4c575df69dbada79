//! Where a value came from, and what is to be said about it.
//!
//! A finding is an error, with which nothing starts, or a note, which changes nothing. Both say where, what
//! was expected, what came and what to do, for people (`Display`) and for programs (`Serialize`).

use serde::Serialize;
use std::fmt;

/// Where a value came from. The later ones win.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Source {
    /// Nobody said anything.
    Default,
    /// A file.
    File(Place),
    /// A variable of the environment.
    Environment {
        /// Its name: `MILLPOND_WORKERS`.
        name: String,
    },
    /// A flag of the command line.
    Flag {
        /// The flag: `--workers`.
        name: String,
    },
}

/// A place in a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    /// The file, as it was named.
    pub file: String,
    /// From 1.
    pub line: usize,
    /// From 1, in letters.
    pub column: usize,
}

/// Finds the places of bytes in one file's text.
#[derive(Debug)]
pub(super) struct Places<'a> {
    file: &'a str,
    text: &'a str,
    /// Where each line begins.
    line_starts: Vec<usize>,
}

impl<'a> Places<'a> {
    pub(super) fn new(file: &'a str, text: &'a str) -> Self {
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        Self { file, text, line_starts: std::iter::once(0).chain(ends.map(|(at, _)| at + 1)).collect() }
    }

    /// The place of a byte; one within a letter counts as the letter, one beyond the end as the end.
    pub(super) fn at(&self, byte: usize) -> Place {
        let mut byte = byte.min(self.text.len());
        while !self.text.is_char_boundary(byte) {
            byte -= 1;
        }
        let line = self.line_starts.partition_point(|start| *start <= byte);
        let column = self.text[self.line_starts[line - 1]..byte].chars().count() + 1;
        Place { file: self.file.to_owned(), line, column }
    }
}

/// As `millpond config` shows it: `default`, `millpond.toml:12`, `MILLPOND_WORKERS`, `--workers`.
impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(place) => write!(f, "{}:{}", place.file, place.line),
            Self::Environment { name } | Self::Flag { name } => f.write_str(name),
        }
    }
}

/// Whether anything can start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Nothing starts.
    Error,
    /// Worth knowing.
    Note,
}

/// One thing that `millpond check` says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Whether anything can start.
    pub severity: Severity,
    /// Where.
    pub source: Source,
    /// What was expected, what came, what to do.
    pub message: String,
}

impl Finding {
    pub(super) fn error(source: Source, message: impl Into<String>) -> Self {
        Self { severity: Severity::Error, source, message: message.into() }
    }

    pub(super) fn note(source: Source, message: impl Into<String>) -> Self {
        Self { severity: Severity::Note, source, message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            Source::File(place) => write!(f, "{}:{}:{}: ", place.file, place.line, place.column)?,
            other => write!(f, "{other}: ")?,
        }
        let severity = match self.severity {
            Severity::Error => "error",
            Severity::Note => "note",
        };
        write!(f, "{severity}: {}", self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_lines_and_letters_from_one() {
        let places = Places::new("f", "aü=\r\n\nx");
        let at = |byte| {
            let place = places.at(byte);
            (place.line, place.column)
        };
        assert_eq!(
            [at(0), at(1), at(2), at(3), at(6), at(7)],
            [(1, 1), (1, 2), (1, 2), (1, 3), (2, 1), (3, 1)]
        );
        assert_eq!(at(1000), (3, 2));
    }
}
