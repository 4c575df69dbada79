//! What can go wrong between a daemon or a client and the NATS server, in words that say what to do.
//!
//! The kinds are few: whoever asks wants to know whether to wait, to mend a setting, or to mend the server.
//! Everything else is in the sentence.
//!
//! Not here: what can go wrong with a task (`ErrorCode` of the crate `millpond-tasks`).

use std::error::Error;
use std::fmt;

/// Why something with the server did not work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NatsError {
    /// Nobody answers there, or nobody that speaks NATS.
    Unreachable(String),
    /// The server wants to know who comes, or does not like who does.
    Unauthorized(String),
    /// The server does not have what is needed: JetStream, a newer version, room, replicas.
    Unable(String),
    /// A stream, a consumer or a bucket is there, but not as it must be.
    Incompatible(String),
    /// There is no such queue, task or letter.
    Missing(String),
    /// A setting or an argument is wrong.
    Invalid(String),
    /// The queue takes no more now.
    Full(String),
    /// Larger than the queue or the server takes.
    TooLarge(String),
    /// The answer did not come in time.
    TimedOut(String),
    /// Somebody else was first.
    Conflict(String),
    /// The server said no for another reason.
    Failed(String),
}

impl NatsError {
    /// What happened.
    pub fn message(&self) -> &str {
        match self {
            Self::Unreachable(message)
            | Self::Unauthorized(message)
            | Self::Unable(message)
            | Self::Incompatible(message)
            | Self::Missing(message)
            | Self::Invalid(message)
            | Self::Full(message)
            | Self::TooLarge(message)
            | Self::TimedOut(message)
            | Self::Conflict(message)
            | Self::Failed(message) => message,
        }
    }

    /// What JetStream answered when it was asked for `what`.
    pub(crate) fn of_answer(what: &str, number: u64, words: &str) -> Self {
        match number {
            // Stream, consumer, message not found.
            10_059 | 10_014 | 10_037 => Self::Missing(format!("{what}: {words}")),
            // A message cannot be removed: it is not there.
            10_057 if words.contains("no message found") || words.contains("EOF") => {
                Self::Missing(format!("{what}: {words}"))
            }
            // The account, or the server, has no JetStream.
            10_039 | 10_076 | 10_035 => Self::Unable(format!(
                "{what}: {words}; start the server with -js, or allow it to the account"
            )),
            // Not enough servers for so many replicas.
            10_074 | 10_005 => Self::Unable(format!("{what}: {words}; lower nats.replicas or add servers")),
            // Storage and memory of the server or the account, streams.
            10_047 | 10_028 | 10_023 | 10_002 | 10_026 | 10_027 => {
                Self::Unable(format!("{what}: {words}; give the server more room, or lower nats.bytes_max"))
            }
            // Messages or bytes of the stream.
            10_077 => Self::Full(format!("{what}: {words}; come again later, or raise nats.messages_max")),
            10_054 => Self::TooLarge(format!("{what}: {words}; see nats.message_bytes_max")),
            // Wrong last sequence: of a subject, or of a stream.
            10_071 | 10_070 => Self::Conflict(format!("{what}: {words}")),
            10_058 => Self::Incompatible(format!("{what}: {words}; choose another queue, or remove it")),
            // Subjects that overlap with another stream's.
            10_065 => {
                Self::Incompatible(format!("{what}: {words}; another stream has them: choose another queue"))
            }
            number => Self::Failed(format!("{what}: the server said {words:?} (error {number})")),
        }
    }
}

impl fmt::Display for NatsError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.message())
    }
}

impl Error for NatsError {}
