//! What each worker counts, and how the counts are added up when somebody asks.
//!
//! A worker is the only writer of its own counters, so counting is a load and a store and never a locked
//! instruction. What ends on other threads (a queued task cancelled by its submitter) is counted in one shared set,
//! with locked additions, since that is rare.

use crossbeam_utils::CachePadded;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How a task ended. Every task that was taken in ends in exactly one of these ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ending {
    /// It ran to its end.
    Completed,
    /// It panicked; the panic was caught and carried to the ticket.
    Panicked,
    /// It was cancelled: by its ticket, a purge or a stop.
    Cancelled,
    /// Its deadline passed while it ran.
    TimedOut,
    /// Its deadline passed before it began.
    Expired,
}

impl Ending {
    const COUNT: usize = 5;
}

/// Counts of one thread, or of all others.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    endings: [AtomicU64; Ending::COUNT],
    /// 1 while the worker runs a task.
    pub(crate) busy: AtomicU64,
    /// Tasks stolen from other workers.
    pub(crate) stolen: AtomicU64,
    /// Times a worker went to sleep.
    pub(crate) sleeps: AtomicU64,
    /// Tasks run in place by their submitter, because every queue was full.
    pub(crate) ran_in_place: AtomicU64,
}

impl Counters {
    /// Counts an ending, on the thread that owns these counters.
    #[inline(always)]
    pub(crate) fn ended(&self, ending: Ending) {
        bump(&self.endings[ending as usize], 1);
    }

    /// Counts an ending, on any thread.
    pub(crate) fn ended_elsewhere(&self, ending: Ending, count: u64) {
        self.endings[ending as usize].fetch_add(count, Relaxed);
    }

    pub(crate) fn endings(&self, ending: Ending) -> u64 {
        self.endings[ending as usize].load(Relaxed)
    }
}

/// Adds to a counter that only this thread writes.
#[inline(always)]
pub(crate) fn bump(counter: &AtomicU64, by: u64) {
    counter.store(counter.load(Relaxed) + by, Relaxed);
}

/// Counters on cache lines of their own.
pub(crate) type Padded = CachePadded<Counters>;
