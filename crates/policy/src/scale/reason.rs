//! Why the number of workers changes or does not, and what a pool publishes when it does.
//!
//! Loads are in thousandths of a task for each worker, since that is what was compared; they are printed as
//! written.

use crate::Moment;
use core::fmt;
use core::time::Duration;

/// Why there should be more workers, or fewer, or as many as there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// More: there are fewer than there must be.
    BelowMin {
        /// So many there must be.
        least: u32,
    },
    /// Fewer: there are more than there may be.
    AboveMax {
        /// So many there may be.
        most: u32,
    },
    /// More: there are many tasks for each worker.
    Load {
        /// Tasks for each worker, in thousandths.
        load: u64,
        /// From which on that is many, in thousandths.
        threshold: u64,
    },
    /// More: a task has waited too long.
    OldestWait {
        /// So long.
        waited: Duration,
        /// Longer than this is too long.
        limit: Duration,
    },
    /// More: they will be needed soon.
    Forecast {
        /// So many will be.
        needed: u32,
        /// After so long.
        horizon: Duration,
    },
    /// Fewer: some have long had nothing to do, and the others little.
    Idle {
        /// So many have had nothing.
        workers: u32,
        /// Tasks for each worker, in thousandths.
        load: u64,
        /// Up to which that is little, in thousandths.
        threshold: u64,
    },
    /// As many: the load is neither high nor low.
    Steady {
        /// Tasks for each worker, in thousandths.
        load: u64,
    },
    /// As many: more are asked for, but not for long enough yet.
    TooFewSamples {
        /// Samples in a row that asked.
        seen: u32,
        /// So many must.
        wanted: u32,
    },
    /// As many: their number changed a moment ago.
    Cooldown {
        /// For so long yet it stays.
        left: Duration,
    },
    /// As many: more are asked for, but there are as many as there may be.
    AtMax {
        /// So many there may be.
        most: u32,
    },
    /// As many: the load is low, but there are only as many as there must be.
    AtMin {
        /// So many there must be.
        least: u32,
    },
    /// As many: the load is low, but nobody has been idle for long enough.
    NobodyIdle {
        /// So long is long enough.
        idle: Duration,
    },
    /// As many: the load is low, but with fewer it would be high, or soon be.
    Needed {
        /// So many are needed.
        workers: u32,
    },
}

/// Thousandths, as a number with a point.
struct Ratio(u64);

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1000, self.0 % 1000)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::BelowMin { least } => write!(f, "there are fewer workers than workers_min ({least})"),
            Self::AboveMax { most } => write!(f, "there are more workers than workers_max ({most})"),
            Self::Load { load, threshold } => {
                write!(f, "{} tasks a worker; {} is the threshold", Ratio(load), Ratio(threshold))
            }
            Self::OldestWait { waited, limit } => {
                write!(f, "a task has waited {waited:?}; {limit:?} is the limit")
            }
            Self::Forecast { needed, horizon } => write!(f, "{needed} workers will be needed in {horizon:?}"),
            Self::Idle { workers, load, threshold } => write!(
                f,
                "{workers} idle for long, {} tasks a worker; {} is the threshold",
                Ratio(load),
                Ratio(threshold)
            ),
            Self::Steady { load } => write!(f, "{} tasks a worker", Ratio(load)),
            Self::TooFewSamples { seen, wanted } => {
                write!(f, "more are asked for in {seen} samples in a row; {wanted} are wanted")
            }
            Self::Cooldown { left } => write!(f, "the number changed a moment ago and stays for {left:?}"),
            Self::AtMax { most } => write!(f, "more are asked for, and there are workers_max ({most})"),
            Self::AtMin { least } => write!(f, "fewer would do, and there are workers_min ({least})"),
            Self::NobodyIdle { idle } => write!(f, "fewer would do, and nobody has been idle for {idle:?}"),
            Self::Needed { workers } => write!(f, "fewer would not do: {workers} are needed"),
        }
    }
}

/// A change of the number of workers, as a pool publishes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScaleEvent {
    /// When it was decided.
    pub at: Moment,
    /// So many there were.
    pub from: u32,
    /// So many there are to be.
    pub to: u32,
    /// Why.
    pub reason: Reason,
}

impl ScaleEvent {
    /// What it is called: `scale-up` or `scale-down`.
    pub const fn name(&self) -> &'static str {
        if self.to > self.from { "scale-up" } else { "scale-down" }
    }

    /// How many workers come or go.
    pub const fn workers(&self) -> u32 {
        self.to.abs_diff(self.from)
    }
}

impl fmt::Display for ScaleEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} from {} to {} workers: {}", self.name(), self.from, self.to, self.reason)
    }
}
