//! How a command can fail, and which exit code each way has.
//!
//! Clap uses 2 for a command line it cannot read; whatever else is wrong with what was asked for gets the same code,
//! so that scripts need not know who noticed.

use std::process::ExitCode;

/// Why a command did not do what it was asked to.
#[derive(Debug)]
pub(crate) enum Failure {
    /// It was asked for what cannot be.
    Usage(String),
    /// Something failed on the way.
    Failed(String),
    /// Ctrl-C was pressed.
    Interrupted,
    /// Whoever read the output has closed it. That is their right, and nothing to talk about.
    NobodyReads,
}

impl Failure {
    pub(crate) fn usage(message: impl ToString) -> Self {
        Self::Usage(message.to_string())
    }

    /// What to tell the user.
    pub(crate) fn message(&self) -> Option<&str> {
        match self {
            Self::Usage(message) | Self::Failed(message) => Some(message),
            Self::Interrupted => Some("interrupted"),
            Self::NobodyReads => None,
        }
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Usage(_) => 2,
            Self::Failed(_) => 1,
            Self::Interrupted => 130,
            Self::NobodyReads => 0,
        })
    }
}
