//! Why a task went where it went, and why it waits.
//!
//! Submitting notes on the thread which worker was chosen and for what reason, and the ticket takes the note along:
//! the task itself carries nothing, so a task nobody asks about costs nothing. Why it waits *now* is looked up when
//! somebody asks.

use crate::state::Snapshot;
use millpond_policy::choose::Reason;
use std::cell::Cell;
use std::fmt;

/// Where a task was put when it was taken in, and why there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Placed {
    /// In the queue all workers share, for whoever is free first.
    #[default]
    Shared,
    /// At the worker whose task submitted it.
    Own {
        /// The number of that worker.
        worker: usize,
    },
    /// Nowhere: its submitter ran it, because the pool was full. Of a future that is the first step.
    RunByCaller,
    /// Nowhere: it was dropped, because the pool was full.
    Dropped,
    /// At the worker its key belongs to.
    ByKey {
        /// The number of that worker.
        worker: usize,
    },
    /// At the worker that the strategy chose.
    Chosen {
        /// The number of that worker.
        worker: usize,
        /// Why that one.
        reason: Reason,
    },
}

impl fmt::Display for Placed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shared => f.write_str("it was put into the shared queue, for whoever is free first"),
            Self::Own { worker } => write!(f, "it was left with worker {worker}, whose task submitted it"),
            Self::RunByCaller => f.write_str("its submitter ran it, because the pool was full"),
            Self::Dropped => f.write_str("it was dropped, because the pool was full"),
            Self::ByKey { worker } => write!(f, "it was given to worker {worker}: its key belongs there"),
            Self::Chosen { worker, reason } => write!(f, "it was given to worker {worker}: {reason}"),
        }
    }
}

/// Where a task was put, and how it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Why {
    /// Where it was put when it was taken in, and why there.
    pub placed: Placed,
    /// How it stands now.
    pub stands: Stands,
}

/// How a task stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stands {
    /// It waits in a queue.
    Waits {
        /// So many tasks wait in the whole pool, this one among them.
        waiting: usize,
        /// So many workers run tasks,
        busy: usize,
        /// of so many.
        workers: usize,
        /// No task is begun at the moment.
        paused: bool,
        /// The worker it waits for, if that is busy and nobody else may take it now.
        bound_to: Option<usize>,
    },
    /// It runs.
    Runs,
    /// It is a future and waits for something to wake it.
    Sleeps,
    /// It has ended.
    Ended,
}

impl Stands {
    /// From the word of the task; `waits` looks up what one that is queued waits for.
    pub(crate) fn of(seen: Option<Snapshot>, waits: impl FnOnce() -> Self) -> Self {
        match seen {
            None => Self::Ended,
            Some(seen) if seen.is_queued() => waits(),
            Some(seen) if seen.is_decided() => Self::Ended,
            Some(seen) if seen.is_running() => Self::Runs,
            Some(_) => Self::Sleeps,
        }
    }
}

impl fmt::Display for Stands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Waits { paused: true, .. } => f.write_str("it waits because the pool is paused"),
            Self::Waits { bound_to: Some(worker), .. } => {
                write!(f, "it waits for worker {worker}, which is busy")
            }
            Self::Waits { waiting, busy, workers, .. } if busy < workers => {
                write!(
                    f,
                    "it waits, and a worker is on its way: {busy} of {workers} are busy, {waiting} tasks wait"
                )
            }
            Self::Waits { waiting, workers, .. } => {
                write!(f, "it waits because all {workers} workers are busy; {waiting} tasks wait")
            }
            Self::Runs => f.write_str("it runs"),
            Self::Sleeps => f.write_str("it is a future that waits to be woken"),
            Self::Ended => f.write_str("it has ended"),
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.placed, self.stands)
    }
}

thread_local! {
    /// Where the task that this thread submitted last was put, if that was noted.
    static LAST: Cell<Option<Placed>> = const { Cell::new(None) };
}

/// Notes where a task was put.
pub(crate) fn note(placed: Placed) {
    LAST.set(Some(placed));
}

/// Where the task that this thread has just submitted was put, if that was noted.
pub(crate) fn take_note() -> Option<Placed> {
    LAST.take()
}
