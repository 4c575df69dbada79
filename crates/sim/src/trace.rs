//! A recorded trace: when tasks came, and perhaps how long each ran.
//!
//! One task a line: the seconds since the beginning at which it came, and after a comma, if that is known, the
//! seconds it ran. Lines that are empty or begin with `#` are left out. Either every task has a service time or
//! none has, since a mixture is more often a mistake than a wish.
//!
//! ```text
//! # offset, service
//! 0.000, 0.0012
//! 0.004, 0.0350
//! ```

use crate::scenario::TASKS_MAX;
use std::fmt;
use std::io::{BufRead, ErrorKind, Read};

/// Thirty years, in seconds: longer than any record, and far from where nanoseconds run out.
const SECONDS_MAX: f64 = 946_080_000.0;
/// Longer lines are not of this format.
const LINE_BYTES_MAX: u64 = 256;
const NANOS: f64 = 1e9;

/// When tasks came, and perhaps how long each ran.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    offsets_ns: Vec<u64>,
    /// As many as there are offsets, or none at all.
    services_ns: Vec<u64>,
}

/// A trace that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceError {
    /// What the trace is called; mostly its file.
    pub name: String,
    /// The line, from 1; 0 if it is about the whole.
    pub line: u64,
    /// What was expected and what came.
    pub problem: String,
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "trace {}: {}", self.name, self.problem),
            line => write!(f, "trace {}, line {line}: {}", self.name, self.problem),
        }
    }
}

impl std::error::Error for TraceError {}

impl Trace {
    /// Reads a trace of at most so many tasks as a run may have. `name` is for the errors.
    pub fn read(name: &str, mut from: impl BufRead) -> Result<Self, TraceError> {
        let mut trace = Self::default();
        let mut text = String::new();
        let mut line = 0;
        let failed = |line, problem| TraceError { name: name.to_owned(), line, problem };
        loop {
            text.clear();
            line += 1;
            let read = (&mut from).take(LINE_BYTES_MAX).read_line(&mut text).map_err(|error| {
                let problem = match error.kind() {
                    ErrorKind::InvalidData => "expected text, got bytes that are not UTF-8".to_owned(),
                    _ => format!("cannot be read: {error}"),
                };
                failed(line, problem)
            })?;
            if read == 0 {
                break;
            }
            if read as u64 == LINE_BYTES_MAX && !text.ends_with('\n') {
                let problem = format!("expected at most {LINE_BYTES_MAX} bytes, got a longer line");
                return Err(failed(line, problem));
            }
            // A spreadsheet may begin its file with a mark of the byte order.
            let words = text.trim_start_matches('\u{feff}').trim();
            trace.add_line(words).map_err(|problem| failed(line, problem))?;
        }
        if trace.is_empty() {
            return Err(failed(
                0,
                "expected at least one task, got none; one offset in seconds per line".into(),
            ));
        }
        Ok(trace)
    }

    /// How many tasks came.
    pub fn len(&self) -> usize {
        self.offsets_ns.len()
    }

    /// Whether none came; never so for a trace that was read.
    pub fn is_empty(&self) -> bool {
        self.offsets_ns.is_empty()
    }

    /// Whether the trace says how long the tasks ran.
    pub fn has_services(&self) -> bool {
        !self.services_ns.is_empty()
    }

    /// When a task came.
    pub(crate) fn offset_ns(&self, at: usize) -> u64 {
        self.offsets_ns[at]
    }

    /// How long it ran, if the trace says so.
    pub(crate) fn service_ns(&self, at: usize) -> Option<u64> {
        self.services_ns.get(at).copied()
    }

    /// The mean service time of the first tasks, if the trace says so.
    pub(crate) fn service_mean_ns(&self, tasks: usize) -> Option<f64> {
        let services = self.services_ns.get(..tasks).filter(|services| !services.is_empty())?;
        let sum: u128 = services.iter().map(|service| u128::from(*service)).sum();
        Some(sum as f64 / services.len() as f64)
    }

    fn add_line(&mut self, text: &str) -> Result<(), String> {
        if text.is_empty() || text.starts_with('#') {
            return Ok(());
        }
        if self.len() as u64 == TASKS_MAX {
            return Err(format!("expected at most {TASKS_MAX} tasks, got more; cut the trace"));
        }
        let (offset, service) = match text.split_once(',') {
            Some((offset, service)) => (offset, Some(service)),
            None => (text, None),
        };
        let offset = nanos("an offset", offset)?;
        if let Some(last) = self.offsets_ns.last().filter(|last| **last > offset) {
            let (last, offset) = (*last as f64 / NANOS, offset as f64 / NANOS);
            return Err(format!(
                "expected an offset of {last} or later, got {offset}; sort the trace by time"
            ));
        }
        if !self.is_empty() && service.is_some() != self.has_services() {
            return Err(match service {
                Some(_) => "expected no service time, since the lines before have none; got one".to_owned(),
                None => "expected a service time after a comma, as in the lines before; got none".to_owned(),
            });
        }
        if let Some(service) = service {
            self.services_ns.push(nanos("a service time", service)?.max(1));
        }
        self.offsets_ns.push(offset);
        Ok(())
    }
}

/// Seconds as they are written, in nanoseconds.
fn nanos(what: &str, text: &str) -> Result<u64, String> {
    let text = text.trim();
    let seconds = text.parse().ok().filter(|seconds| (0.0..=SECONDS_MAX).contains(seconds));
    match seconds {
        Some(seconds) => Ok(libm::round(seconds * NANOS) as u64),
        None => Err(format!("expected {what} in seconds from 0 to {SECONDS_MAX}, got {text:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Trace, String> {
        Trace::read("day.csv", text.as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn offsets_and_service_times_are_read_to_the_nanosecond() {
        let trace = read("# a day\n0, 0.5\n\n 0.000000001 ,2\r\n3.25,1e-3").unwrap();
        assert_eq!(trace.offsets_ns, [0, 1, 3_250_000_000]);
        assert_eq!(trace.services_ns, [500_000_000, 2_000_000_000, 1_000_000]);
        let trace = read("0\n0\n1\n").unwrap();
        assert_eq!((trace.len(), trace.has_services()), (3, false));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        for (text, expected) in [
            ("0\nx\n", "trace day.csv, line 2: expected an offset in seconds from 0 to 946080000, got \"x\""),
            ("-1", "trace day.csv, line 1: expected an offset in seconds from 0 to 946080000, got \"-1\""),
            ("NaN", "trace day.csv, line 1: expected an offset in seconds from 0 to 946080000, got \"NaN\""),
            (
                "2\n1",
                "trace day.csv, line 2: expected an offset of 2 or later, got 1; sort the trace by time",
            ),
            (
                "1,inf",
                "trace day.csv, line 1: expected a service time in seconds from 0 to 946080000, got \"inf\"",
            ),
            (
                "1\n2,3",
                "trace day.csv, line 2: expected no service time, since the lines before have none; got one",
            ),
            (
                "1,1\n2",
                "trace day.csv, line 2: expected a service time after a comma, as in the lines before; got none",
            ),
            ("# none", "trace day.csv: expected at least one task, got none; one offset in seconds per line"),
        ] {
            assert_eq!(read(text).unwrap_err(), expected);
        }
        let long = format!("1\n{}", "9".repeat(300));
        assert!(read(&long).unwrap_err().contains("line 2: expected at most 256 bytes"));
        let bytes = Trace::read("day.csv", &b"1\n\xff\n"[..]).unwrap_err();
        assert!(bytes.to_string().contains("line 2: expected text"), "{bytes}");
    }
}
