//! What can go wrong with a task: one table of codes for Rust, C, HTTP and JavaScript.
//!
//! Codes 0 to −6 are those of the specification. Ours lie below −100, so that a later specification has room.
//! A code and its name never change their meaning; a new row goes below its kin and takes a new number. The
//! page `docs/errors.md` is made from this table by [`markdown`].
//!
//! Not here: who raises which error, and how a door puts one into its own words.

use std::error::Error;
use std::fmt;

/// One row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorRow {
    /// The variant.
    pub code: ErrorCode,
    /// Its number: 0, −1 to −6, or below −100.
    pub number: i32,
    /// Its name for programs: lower case, with hyphens.
    pub name: &'static str,
    /// The status with which the HTTP door answers.
    pub http_status: u16,
    /// Whether the same request may succeed if it is sent again.
    pub retry_may_help: bool,
    /// One sentence for people.
    pub sentence: &'static str,
}

/// Makes the enum and its rows out of one list, so that neither can lack what the other has.
macro_rules! error_table {
    ($($variant:ident = $number:literal, $name:literal, $status:literal, $retry:literal, $sentence:literal;)*) => {
        /// What became of a task or a request. `i32::from` gives the number, [`TryFrom`] reads it back.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(i32)]
        pub enum ErrorCode {
            $(#[doc = $sentence] $variant = $number,)*
        }

        /// The whole table, from 0 downwards.
        pub const TABLE: &[ErrorRow] = &[$(ErrorCode::$variant.row(),)*];

        impl ErrorCode {
            /// All that the table says about this code.
            pub const fn row(self) -> ErrorRow {
                match self {
                    $(Self::$variant => ErrorRow {
                        code: self,
                        number: $number,
                        name: $name,
                        http_status: $status,
                        retry_may_help: $retry,
                        sentence: $sentence,
                    },)*
                }
            }
        }
    };
}

error_table! {
    Ok = 0, "ok", 200, false, "The task did what it was asked to do.";
    UnknownHandler = -1, "unknown-handler", 422, false, "No handler has this opcode or this name.";
    InvalidRequest = -2, "invalid-request", 400, false, "The request is not JSON, or says something it may not.";
    UnknownSymbol = -3, "unknown-symbol", 422, false, "No memory region has this name.";
    OutOfMemory = -4, "out-of-memory", 503, true, "There was not enough memory to run the task.";
    HandlerCrashed = -5, "handler-crashed", 500, true, "The handler panicked, was killed or left without an answer.";
    TimedOut = -6, "timed-out", 504, true, "The task ran longer than it was allowed to.";
    Cancelled = -101, "cancelled", 409, false, "Somebody cancelled the task.";
    QueueFull = -102, "queue-full", 503, true, "The task was refused because the queue is full.";
    Draining = -103, "draining", 503, true, "The task was refused because the pool is shutting down.";
    Expired = -104, "expired", 504, true, "The time allowed was over before the task began.";
    Dropped = -105, "dropped", 503, true, "The task waited in a full queue and made room for another.";
    ResultGone = -106, "result-gone", 410, false, "The task ended, and its result is no longer kept.";
    NotAllowed = -107, "not-allowed", 403, false, "The allow-list does not permit this file, address or region.";
    BadArguments = -108, "bad-arguments", 422, false, "The handler does not accept these arguments.";
    HandlerError = -109, "handler-error", 500, true, "The handler ran and reported an error of its own.";
    TooLarge = -110, "too-large", 413, false, "The request or the result is larger or deeper than the limits.";
    DuplicateId = -111, "duplicate-id", 409, false, "Another task has this id.";
    NotFound = -112, "not-found", 404, false, "No task has this id.";
    AlreadyEnded = -113, "already-ended", 409, false, "The task has ended and can no longer be changed.";
    KeyReused = -114, "key-reused", 422, false, "The idempotency key belongs to a request that says something else.";
    RetriesExhausted = -115, "retries-exhausted", 500, false, "Every attempt failed, and no further one is allowed.";
    NotEnded = -116, "not-ended", 409, true, "The task has not ended, and only one that has can be asked for this.";
    DaemonDied = -117, "daemon-died", 503, true, "The daemon died while it had the task, which may have run.";
    JournalFull = -118, "journal-full", 503, true, "The task was refused because the journal's disk has no room.";
    JournalFailed = -119, "journal-failed", 503, true, "The journal cannot be written; a restart is needed.";
    Postponed = -120, "postponed", 504, false, "The daemon stopped; the task is kept and goes on after the restart.";
    Internal = -199, "internal", 500, true, "This is a mistake of millpond itself; please report it.";
}

impl ErrorCode {
    /// The number: 0, −1 to −6, or below −100.
    pub const fn number(self) -> i32 {
        self as i32
    }

    /// The name for programs, for example `queue-full`.
    pub const fn name(self) -> &'static str {
        self.row().name
    }

    /// Whether the same request may succeed if it is sent again.
    pub const fn retry_may_help(self) -> bool {
        self.row().retry_may_help
    }

    /// The code with this number, if there is one.
    pub fn from_number(number: i32) -> Option<Self> {
        TABLE.iter().find(|row| row.number == number).map(|row| row.code)
    }

    /// The code with this name, if there is one.
    pub fn from_name(name: &str) -> Option<Self> {
        TABLE.iter().find(|row| row.name == name).map(|row| row.code)
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

impl From<ErrorCode> for i32 {
    fn from(code: ErrorCode) -> Self {
        code.number()
    }
}

impl TryFrom<i32> for ErrorCode {
    type Error = UnknownCode;

    fn try_from(number: i32) -> Result<Self, UnknownCode> {
        Self::from_number(number).ok_or(UnknownCode(number))
    }
}

/// A number that no row of the table has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownCode(pub i32);

impl fmt::Display for UnknownCode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "expected a code of the error table, got {}; see docs/errors.md", self.0)
    }
}

impl Error for UnknownCode {}

/// A place in a text, as an editor shows it: both count from 1, and columns count characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The line.
    pub line: u64,
    /// The character in that line.
    pub column: u64,
}

impl Position {
    /// The place of the byte at `offset`. An offset past the end is taken for the end.
    pub fn of(text: &[u8], offset: usize) -> Self {
        let before = &text[..offset.min(text.len())];
        let line_start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let line = 1 + before[..line_start].iter().filter(|byte| **byte == b'\n').count() as u64;
        // A byte 10xxxxxx continues a character. Counting the others also works where the text is not UTF-8.
        let column = 1 + before[line_start..].iter().filter(|byte| **byte & 0xC0 != 0x80).count() as u64;
        Self { line, column }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "line {}, column {}", self.line, self.column)
    }
}

/// Why a task has no result: a code for programs, a message for people, and a place if there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskFailure {
    /// Which row of the table.
    pub code: ErrorCode,
    /// What happened this time: lower case, no full stop.
    pub message: String,
    /// Where in the request, if that can be said.
    pub at: Option<Position>,
}

impl TaskFailure {
    /// A failure without a place.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), at: None }
    }
}

impl fmt::Display for TaskFailure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} ({})", self.code, self.code.number())?;
        if !self.message.is_empty() {
            write!(formatter, ": {}", self.message)?;
        }
        self.at.map_or(Ok(()), |at| write!(formatter, " ({at})"))
    }
}

impl Error for TaskFailure {}

/// The page `docs/errors.md`.
pub fn markdown() -> String {
    let mut page = String::from(
        "# Error codes\n\n\
         Made from the table in `crates/tasks/src/error.rs`; a test holds this page against it.\n\n\
         Numbers and names keep their meaning for ever. 0 to −6 are those of the specification, ours lie below −100.\n\
         *Retry* says whether the same request may succeed if it is sent again.\n\n\
         | number | name | HTTP | retry | meaning |\n|---:|---|---:|---|---|\n",
    );
    for row in TABLE {
        let retry = if row.retry_may_help { "may help" } else { "no" };
        let ErrorRow { number, name, http_status, sentence, .. } = row;
        page.push_str(&format!("| {number} | `{name}` | {http_status} | {retry} | {sentence} |\n"));
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_counts_characters_and_stays_inside_the_text() {
        let text = "ab\nü€x\n".as_bytes();
        let place = |offset| {
            let Position { line, column } = Position::of(text, offset);
            (line, column)
        };
        assert_eq!(place(0), (1, 1));
        assert_eq!(place(2), (1, 3), "the line break belongs to the line it ends");
        assert_eq!(place(3), (2, 1));
        assert_eq!(place(8), (2, 3));
        assert_eq!(place(10), (3, 1));
        assert_eq!(place(usize::MAX), (3, 1));
        assert_eq!(Position::of(&[0xFF, 0xFF], 2), Position { line: 1, column: 3 });
    }
}
