//! What each worker counts, and how the counts are added up when somebody asks.
//!
//! A worker is the only writer of its own counters, so counting is a load and a store and never a locked
//! instruction. What ends on other threads (a queued task cancelled by its submitter) is counted in one shared set,
//! with locked additions, since that is rare. The same goes for what happens at a full queue, to tasks with a key, and
//! when the number of workers changes.
//!
//! Not here: how long things took (`latency.rs`), and how the counts are shown (`metrics.rs`).

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
    /// The queue was full, and it was dropped to make room, or instead of making room.
    Dropped,
}

impl Ending {
    const COUNT: usize = 6;
}

/// Counts of one thread, or of all others.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    endings: [AtomicU64; Ending::COUNT],
    /// 1 while the worker runs a task.
    pub(crate) busy: AtomicU64,
    /// Tasks stolen from other workers.
    pub(crate) stolen: AtomicU64,
    /// Times it took tasks from another worker, however many.
    pub(crate) robberies: AtomicU64,
    /// Times it came to another worker for tasks and others had been faster.
    pub(crate) robberies_in_vain: AtomicU64,
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

/// What happened at a full queue, whoever submitted. Counted with locked additions.
#[derive(Debug, Default)]
pub(crate) struct PressureCounts {
    /// Tasks that went back to their submitter because the queue was full.
    pub(crate) refused: AtomicU64,
    /// Tasks that went back to their submitter because the queue stayed full for as long as that would wait.
    pub(crate) timed_out: AtomicU64,
    /// New tasks that were dropped.
    pub(crate) dropped_newest: AtomicU64,
    /// Tasks that their submitter ran itself, because the policy says so.
    pub(crate) ran_by_caller: AtomicU64,
}

/// What became of tasks with an affinity key. Counted with locked additions.
#[derive(Debug, Default)]
pub(crate) struct AffinityCounts {
    /// Tasks that were submitted with a key.
    pub(crate) keyed: AtomicU64,
    /// Of those, the ones that found room in the inbox of their key's worker.
    pub(crate) hits: AtomicU64,
    /// Of the hits, the ones that another worker took over.
    pub(crate) moved: AtomicU64,
}

/// How often the number of workers was changed by the pool itself. Counted with locked additions.
#[derive(Debug, Default)]
pub(crate) struct ScaleCounts {
    pub(crate) ups: AtomicU64,
    pub(crate) downs: AtomicU64,
    /// Times the system would not start a thread.
    pub(crate) failed: AtomicU64,
}

/// Counters on cache lines of their own.
pub(crate) type Padded = CachePadded<Counters>;
