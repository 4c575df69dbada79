//! What a client is refused, in which words, and under which code.
//!
//! A refusal changes nothing: whoever got one may try again with the same task.

use crate::channel::SendError;
use millpond_tasks::ErrorCode;
use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why a program could not attach.
#[derive(Debug)]
pub enum AttachError {
    /// The name is none.
    BadName(io::Error),
    /// Nobody listens there.
    NoDaemon {
        /// The socket.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// A daemon is there and does not answer.
    Silent {
        /// The socket.
        path: PathBuf,
    },
    /// Somebody else's daemon listens there.
    NotOurs {
        /// The socket.
        path: PathBuf,
        /// Whose.
        user: u32,
    },
    /// The daemon says no, and why.
    Refused(String),
    /// There is no memory.
    Memory(String),
}

impl fmt::Display for AttachError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadName(error) => error.fmt(formatter),
            Self::NoDaemon { path, error } => write!(
                formatter,
                "{}: no daemon to attach to: {error}; start one with `millpond serve`, or give its name",
                path.display()
            ),
            Self::Silent { path } => {
                write!(
                    formatter,
                    "{}: the daemon does not answer; it may be stopped, or very busy",
                    path.display()
                )
            }
            Self::NotOurs { path, user } => write!(
                formatter,
                "{}: the daemon belongs to user {user}, and only programs of the same user may attach",
                path.display()
            ),
            Self::Refused(words) => write!(formatter, "the daemon refused: {words}"),
            Self::Memory(words) => formatter.write_str(words),
        }
    }
}

impl Error for AttachError {}

/// Why a call of the client was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientError {
    /// No room: the daemon is behind, or too many tasks are outstanding.
    Full,
    /// The request will never fit.
    TooLarge {
        /// What would.
        bytes_max: usize,
    },
    /// The daemon takes no more tasks.
    Draining,
    /// There is no daemon, and what was found instead.
    NoDaemon(String),
    /// No task of this number is outstanding: none was sent, or its reply was handed over already.
    Unknown {
        /// Which.
        number: u64,
    },
    /// The stream has been read to its end.
    StreamOver {
        /// Of which task.
        number: u64,
    },
    /// A handler's name that cannot be one, or one name too many.
    BadHandler(String),
}

impl ClientError {
    /// Its row in the table of errors.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Full => ErrorCode::QueueFull,
            Self::TooLarge { .. } => ErrorCode::TooLarge,
            Self::Draining => ErrorCode::Draining,
            Self::NoDaemon(_) => ErrorCode::DaemonDied,
            Self::Unknown { .. } => ErrorCode::NotFound,
            Self::StreamOver { .. } => ErrorCode::AlreadyEnded,
            Self::BadHandler(_) => ErrorCode::UnknownHandler,
        }
    }
}

impl fmt::Display for ClientError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => formatter.write_str(
                "no room for another task: the daemon is behind or too many are outstanding; take replies, come again",
            ),
            Self::TooLarge { bytes_max } => {
                write!(formatter, "expected a request of at most {bytes_max} bytes; attach with a larger arena_bytes")
            }
            Self::Draining => formatter.write_str("the daemon is shutting down and takes no more tasks"),
            Self::NoDaemon(words) => write!(formatter, "there is no daemon: {words}"),
            Self::Unknown { number } => {
                write!(formatter, "no task {number} is outstanding; its reply may have been taken already")
            }
            Self::StreamOver { number } => write!(formatter, "the stream of task {number} has been read to its end"),
            Self::BadHandler(words) => formatter.write_str(words),
        }
    }
}

impl Error for ClientError {}

impl From<SendError> for ClientError {
    fn from(error: SendError) -> Self {
        match error {
            SendError::Full => Self::Full,
            SendError::TooLarge { bytes_max } => Self::TooLarge { bytes_max },
            SendError::Closed => Self::Draining,
            SendError::Broken => {
                Self::NoDaemon("the shared memory holds values that nobody may write".to_owned())
            }
        }
    }
}
