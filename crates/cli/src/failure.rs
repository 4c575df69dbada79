//! How a command can fail, and which exit code each way has.
//!
//! One table serves `--help`, `docs/cli.md` and the code. Clap uses 2 for a command line it cannot read;
//! whatever else is wrong with what was asked for gets the same code, so that scripts need not know who
//! noticed.

use std::fmt::Write;
use std::process::ExitCode;

/// Why a command did not do what it was asked to.
#[derive(Debug)]
pub(crate) enum Failure {
    /// It was asked for what cannot be.
    Usage(String),
    /// Something failed on the way.
    Failed(String),
    /// What is wrong was part of the output: a task that failed, findings of a check. Only the exit code is
    /// left to say.
    Shown(u8),
    /// Nobody is there to do it.
    NoDaemon(String),
    /// The daemon takes no tasks at the moment.
    Refused(String),
    /// The time to wait is over.
    TimedOut(String),
    /// Ctrl-C was pressed.
    Interrupted,
    /// Whoever read the output has closed it. That is their right, and nothing to talk about.
    NobodyReads,
}

/// The exit code of what failed.
pub(crate) const FAILED: u8 = 1;
/// The exit code of what the daemon refused.
pub(crate) const REFUSED: u8 = 4;

/// Every exit code, and what it means.
pub(crate) const EXIT_CODES: &[(u8, &str)] = &[
    (0, "all went well"),
    (FAILED, "a task failed, a check found a mistake, or something went wrong on the way"),
    (2, "what was asked for cannot be; the message says what can"),
    (3, "nobody answers: no daemon, no NATS server, or no such queue on it"),
    (REFUSED, "the daemon refused: its queue is full, or it is shutting down"),
    (5, "the time to wait was over; the task goes on"),
    (130, "stopped by Ctrl-C"),
];

/// The table for the end of `--help`.
pub(crate) fn exit_codes_help() -> String {
    let mut help = String::from("Exit codes:");
    for (code, meaning) in EXIT_CODES {
        // Writing to a `String` cannot fail.
        let _ = write!(help, "\n  {code:<5}{meaning}");
    }
    help
}

impl Failure {
    pub(crate) fn usage(message: impl ToString) -> Self {
        Self::Usage(message.to_string())
    }

    /// What to tell the user.
    pub(crate) fn message(&self) -> Option<&str> {
        match self {
            Self::Usage(message)
            | Self::Failed(message)
            | Self::NoDaemon(message)
            | Self::Refused(message)
            | Self::TimedOut(message) => Some(message),
            Self::Interrupted => Some("interrupted"),
            Self::Shown(_) | Self::NobodyReads => None,
        }
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::NobodyReads => 0,
            Self::Shown(code) => *code,
            Self::Failed(_) => FAILED,
            Self::Usage(_) => 2,
            Self::NoDaemon(_) => 3,
            Self::Refused(_) => REFUSED,
            Self::TimedOut(_) => 5,
            Self::Interrupted => 130,
        })
    }
}
