//! Requests one to a line: cuts a stream of bytes into lines, with their numbers and within the limits.
//!
//! A line counts when its line break has come; until then it is kept, however often the stream says that it
//! has ended, because a file that somebody appends to says so all the time. A line that is too long is
//! refused once and passed over without being stored.
//!
//! It is not an `Iterator`, since the lines lie in one buffer that is used again: a million lines, one
//! allocation.
//!
//! Not here: watching a file, and remembering how far it was read.

use super::limits::Limits;
use super::problem::{Problem, RequestError};
use super::tokens::is_space;
use super::{Request, scan};
use crate::error::{ErrorCode, Position};
use std::io::{self, BufRead, ErrorKind};

/// Cuts a stream into lines.
///
/// ```
/// use millpond_tasks::{Limits, Lines};
///
/// let mut lines = Lines::new(&b"{\"opcode\": 1}\n\n{\"opcode\": 0}\n{\"opco"[..], Limits::default());
/// let mut opcodes = Vec::new();
/// while let Some(line) = lines.next_line()? {
///     opcodes.push((line.number, line.parse().is_ok()));
/// }
/// assert_eq!(opcodes, [(1, true), (3, false)]);
/// assert_eq!(lines.partial(), b"{\"opco"); // the rest may still come
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Lines<R> {
    stream: R,
    limits: Limits,
    /// The line that is being collected, or the one that was handed out last.
    line: Vec<u8>,
    /// What has become of `line`.
    state: State,
    /// Lines that have begun, blank ones too.
    number: u64,
    /// Lines handed out.
    asked: u64,
    /// Bytes taken from the stream.
    taken_bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The next byte begins a line.
    Between,
    /// Its line break has not come.
    Collecting,
    /// The same, and what has come is already too much.
    PassingOver,
    /// The batch has had too many lines.
    Over,
}

/// One line that is not blank.
#[derive(Debug)]
pub struct Line<'a> {
    /// Its number in the stream, from 1, blank lines counted.
    pub number: u64,
    /// Where the next line begins, in bytes from the start of the stream.
    pub end: u64,
    /// The line without its line break, or why it cannot be had.
    pub text: Result<&'a [u8], RequestError>,
    limits: &'a Limits,
}

impl Line<'_> {
    /// The request in this line. An error names the line's number in the stream.
    pub fn parse(self) -> Result<Request, RequestError> {
        Request::parse(self.text?, self.limits).map_err(|error| error.in_line(self.number))
    }
}

impl<R: BufRead> Lines<R> {
    /// Starts at line 1.
    pub fn new(stream: R, limits: Limits) -> Self {
        let line = Vec::new();
        Self { stream, limits, line, state: State::Between, number: 0, asked: 0, taken_bytes: 0 }
    }

    /// The next line that is not blank. None if no whole line is there: the stream has ended, perhaps for
    /// now, or the batch has had too many lines. An error of the stream loses nothing; call again.
    pub fn next_line(&mut self) -> io::Result<Option<Line<'_>>> {
        while self.collect()? {
            if self.is_wanted() {
                return Ok(Some(self.hand_out()));
            }
            self.state = State::Between;
        }
        Ok(None)
    }

    /// The last line, if the stream is known to have ended without a line break.
    pub fn finish(&mut self) -> Option<Line<'_>> {
        let begun = matches!(self.state, State::Collecting | State::PassingOver);
        (begun && self.is_wanted()).then(|| self.hand_out())
    }

    /// What has come of a line whose line break has not.
    pub fn partial(&self) -> &[u8] {
        if matches!(self.state, State::Collecting | State::PassingOver) { &self.line } else { &[] }
    }

    /// Takes bytes up to the next line break; false if the stream has none.
    fn collect(&mut self) -> io::Result<bool> {
        while self.state != State::Over {
            let there = match self.stream.fill_buf() {
                Ok([]) => return Ok(false),
                Ok(there) => there,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if self.state == State::Between {
                self.line.clear();
                self.number += 1;
                self.state = State::Collecting;
            }
            let line_break = there.iter().position(|byte| *byte == b'\n');
            let part = &there[..line_break.unwrap_or(there.len())];
            let line_bytes_max = usize::try_from(self.limits.request_bytes_max).unwrap_or(usize::MAX);
            let room = line_bytes_max.saturating_sub(self.line.len());
            if part.len() > room {
                self.state = State::PassingOver;
            }
            self.line.extend_from_slice(&part[..part.len().min(room)]);
            let taken = part.len() + usize::from(line_break.is_some());
            self.stream.consume(taken);
            self.taken_bytes += taken as u64;
            if line_break.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn is_wanted(&self) -> bool {
        self.state == State::PassingOver || !self.line.iter().all(|byte| is_space(*byte))
    }

    fn hand_out(&mut self) -> Line<'_> {
        self.asked += 1;
        let too_many = self.asked > self.limits.batch_lines_max;
        let too_long = self.state == State::PassingOver;
        self.state = if too_many { State::Over } else { State::Between };
        let text = if too_many {
            Err(self.too_many_lines())
        } else if too_long {
            let error = Problem::too_long(&self.line, self.limits.request_bytes_max);
            Err(error.in_line(self.number))
        } else {
            Ok(self.line.as_slice())
        };
        Line { number: self.number, end: self.taken_bytes, text, limits: &self.limits }
    }

    fn too_many_lines(&self) -> RequestError {
        RequestError {
            id: scan::find_id(&self.line),
            code: ErrorCode::TooLarge,
            path: String::new(),
            message: format!(
                "expected a batch of at most {} lines, got more; this line and the rest were not read",
                self.limits.batch_lines_max
            ),
            position: Position { line: self.number, column: 1 },
        }
    }
}
