//! What a process did wrong, and how the task that it cost is told.
//!
//! After any of these nobody can say which task the next words of the process belong to, so it is killed and
//! replaced. The message has all that helps to find the mistake: which program and process, what it did, and
//! its last words.

use super::ending::{Ending, ending};
use super::limits::ProcessLimits;
use crate::error::ErrorCode;
use std::process::ExitStatus;

/// What a process did wrong.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// It ended, which the exit status tells more about.
    Ended,
    /// It closed its stdout and lives on.
    ClosedStdout,
    /// It wrote a line that means nothing; with what was expected and what came.
    Meaningless(String),
    /// It wrote a line longer than this many bytes.
    LineTooLong(usize),
    /// It went on after its answer; with what it said.
    WentOn(String),
    /// It answered before it read a byte of the task: the answer must be to something else.
    AnsweredUnread,
    /// It said something while it had no task.
    SpokeUnasked(String),
    /// A partial result was too large for the stream; with what the stream said.
    PartialTooLarge(String),
    /// The machine failed us.
    Lost(String),
}

/// Which process, for messages: `python3 worker.py (pid 123)`.
pub(super) fn name(label: &str, pid: u32) -> String {
    format!("{label} (pid {pid})")
}

impl Fault {
    /// Which error the task ends with.
    pub(super) fn code(&self) -> ErrorCode {
        match self {
            Self::PartialTooLarge(_) => ErrorCode::TooLarge,
            _ => ErrorCode::HandlerCrashed,
        }
    }

    /// What happened, as a message. The status is known if the process has ended.
    pub(super) fn words(
        &self,
        process: &str,
        status: Option<ExitStatus>,
        last_words: Option<&str>,
        limits: ProcessLimits,
    ) -> String {
        let did = match (self, status) {
            (Self::Ended, Some(status)) => {
                let Ending { did, why } = ending(status, last_words, limits);
                let when = if status.code().is_some() { "before it answered" } else { "while it worked" };
                let why = why.map(|why| format!(": {why}")).unwrap_or_default();
                format!("{did} {when}{why}")
            }
            (Self::Ended, None) => "ended before it answered".to_owned(),
            (Self::ClosedStdout, _) => "closed its stdout without an answer and was killed".to_owned(),
            (Self::Meaningless(why), _) => format!("wrote a line that is no answer and was killed: {why}"),
            (Self::LineTooLong(most), _) => format!(
                "wrote a line longer than {most} bytes and was killed; send less at a time or raise \
                 line_bytes_max"
            ),
            (Self::WentOn(said), _) => format!("went on after its answer and was killed: it said {said}"),
            (Self::AnsweredUnread, _) => "answered before it read its task and was killed".to_owned(),
            (Self::SpokeUnasked(said), _) => format!("spoke without a task and was killed: it said {said}"),
            (Self::PartialTooLarge(why), _) => format!("was stopped: {why}"),
            (Self::Lost(error), _) => format!("could not be listened to and was killed: {error}"),
        };
        match last_words {
            Some(words) => format!("{process} {did}; last words on stderr: {words}"),
            None => format!("{process} {did}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    #[test]
    fn a_message_says_who_did_what_and_why() {
        let limits = ProcessLimits { memory_bytes_max: Some(1000), cpu_seconds_max: None };
        let who = name("python3 worker.py", 123);
        let ended = |raw, words| Fault::Ended.words(&who, Some(ExitStatus::from_raw(raw)), words, limits);
        assert_eq!(
            ended(11, Some("oh no")),
            "python3 worker.py (pid 123) was killed by signal 11 (SIGSEGV) while it worked; last words on \
             stderr: oh no"
        );
        assert_eq!(
            ended(3 << 8, None),
            "python3 worker.py (pid 123) exited with status 3 before it answered"
        );
        assert_eq!(
            ended(1 << 8, Some("MemoryError")),
            "python3 worker.py (pid 123) exited with status 1 before it answered: it ran out of memory \
             (memory_bytes_max = 1000); last words on stderr: MemoryError"
        );
        assert_eq!(
            Fault::LineTooLong(9).words(&who, None, None, limits),
            "python3 worker.py (pid 123) wrote a line longer than 9 bytes and was killed; send less at a \
             time or raise line_bytes_max"
        );
    }
}
