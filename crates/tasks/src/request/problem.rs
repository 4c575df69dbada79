//! Why a request was refused, in words that lead to the place.
//!
//! While a request is read, a mistake is a code, an offset and a sentence. Id, path, line and column cost a
//! walk over the text, so they are looked up once, when the mistake leaves this crate.
//!
//! Not here: the search for id and path (`scan.rs`).

use super::scan;
use super::task_id::TaskId;
use crate::error::{ErrorCode, Position, TaskFailure};
use std::error::Error;
use std::fmt;

/// A request that was refused. It prints as `task 17: args.url: expected …, got … (line 1, column 20)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestError {
    /// Whose request it was. It is looked for even in text that is not JSON, so that whoever waits hears of
    /// it.
    pub id: Option<TaskId>,
    /// Which row of the error table.
    pub code: ErrorCode,
    /// The way to the value: `args.list[3].url`. Empty for the request as a whole.
    pub path: String,
    /// What was expected and what came.
    pub message: String,
    /// Where it stands in the text.
    pub position: Position,
}

impl RequestError {
    /// The same error in a longer text, of which the request is a part that begins with line `line`.
    #[must_use]
    pub fn in_line(mut self, line: u64) -> Self {
        self.position.line = self.position.line.saturating_add(line.saturating_sub(1));
        self
    }
}

impl fmt::Display for RequestError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(id) = &self.id {
            write!(formatter, "task {id}: ")?;
        }
        if !self.path.is_empty() {
            write!(formatter, "{}: ", self.path)?;
        }
        write!(formatter, "{} ({})", self.message, self.position)
    }
}

impl Error for RequestError {}

impl From<RequestError> for TaskFailure {
    fn from(error: RequestError) -> Self {
        let RequestError { code, path, message, position, .. } = error;
        let message = if path.is_empty() { message } else { format!("{path}: {message}") };
        Self { code, message, at: Some(position) }
    }
}

/// A mistake at a byte of the text.
#[derive(Debug)]
pub(super) struct Problem {
    code: ErrorCode,
    offset: usize,
    message: String,
}

impl Problem {
    pub(super) fn new(code: ErrorCode, offset: usize, message: impl Into<String>) -> Self {
        Self { code, offset, message: message.into() }
    }

    /// A request that says something it may not.
    pub(super) fn invalid(offset: usize, message: impl Into<String>) -> Self {
        Self::new(ErrorCode::InvalidRequest, offset, message)
    }

    /// With all that the text tells. Up to the offset it must be within the limits.
    pub(super) fn in_text(self, text: &[u8]) -> RequestError {
        let path = scan::path(text, self.offset);
        self.with_path(text, path)
    }

    /// The same for a text that is the value of `args`. It names no task, whatever is called so in it.
    pub(super) fn in_args(self, text: &[u8]) -> RequestError {
        let within = scan::path(text, self.offset);
        let joint = if within.is_empty() || within.starts_with('[') { "" } else { "." };
        let path = format!("args{joint}{within}");
        let position = Position::of(text, self.offset);
        RequestError { id: None, code: self.code, path, message: self.message, position }
    }

    /// A request that has more than `bytes_max` bytes, of which `text` may be only the first.
    pub(super) fn too_long(text: &[u8], bytes_max: u64) -> RequestError {
        let bytes_max_here = usize::try_from(bytes_max).unwrap_or(usize::MAX);
        let start = &text[..text.len().min(bytes_max_here)];
        let message = format!("expected a request of at most {bytes_max} bytes, got more");
        // Nobody has looked at the nesting yet, so there is no path.
        Self::new(ErrorCode::TooLarge, start.len(), message).with_path(start, String::new())
    }

    fn with_path(self, text: &[u8], path: String) -> RequestError {
        let position = Position::of(text, self.offset);
        RequestError { id: scan::find_id(text), code: self.code, path, message: self.message, position }
    }
}
