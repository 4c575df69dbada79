//! Why a run could not be made, or not be finished.
//!
//! A setting that cannot work and a trace that cannot be read are the user's to mend. A strategy that chooses nobody
//! is its author's. A task that is lost is a mistake of this crate, and is told rather than hidden in a figure.

use crate::trace::TraceError;
use millpond_policy::BadSetting;
use std::fmt;

/// Why there is no outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SimError {
    /// A setting cannot work.
    Setting(BadSetting),
    /// A trace cannot be used.
    Trace(TraceError),
    /// Whoever watched the run asked it to stop.
    Stopped,
    /// The strategy chose nobody, or a worker that takes no tasks, although there is one that does.
    BadChoice {
        /// The strategy.
        strategy: String,
    },
    /// Simulated time ran out: 584 years have passed.
    TooLong,
    /// The tasks at the end are not those of the beginning.
    Lost {
        /// How many there should be.
        tasks: u64,
        /// How many arrived.
        arrived: u64,
        /// How many were begun.
        begun: u64,
        /// How many ended.
        ended: u64,
    },
}

impl fmt::Display for SimError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Setting(setting) => setting.fmt(f),
            Self::Trace(trace) => trace.fmt(f),
            Self::Stopped => f.write_str("the run was stopped before its end"),
            Self::BadChoice { strategy } => write!(
                f,
                "strategy {strategy}: expected a worker that takes tasks, got none or one that does not; \
                 this is a mistake in the strategy"
            ),
            Self::TooLong => f.write_str(
                "simulated time ran out after 584 years; ask for fewer tasks, shorter ones, or faster workers",
            ),
            Self::Lost { tasks, arrived, begun, ended } => write!(
                f,
                "expected {tasks} tasks to arrive, begin and end, got {arrived}, {begun} and {ended}, or their \
                 times do not add up; this is a mistake in the simulator, please report it"
            ),
        }
    }
}

impl std::error::Error for SimError {}

impl From<BadSetting> for SimError {
    fn from(setting: BadSetting) -> Self {
        Self::Setting(setting)
    }
}

impl From<TraceError> for SimError {
    fn from(trace: TraceError) -> Self {
        Self::Trace(trace)
    }
}
