//! One word for each task of a round, marked by the task itself and by whoever is told of its end.
//!
//! ```text
//!   ┌─────────┬────────┬───────┬───────┬────────────┬────────────┬───────────┐
//!   │ refused │ future │ told  │ panic │ drops 4 bit│ ends 4 bit │begins 4bit│
//!   └─────────┴────────┴───────┴───────┴────────────┴────────────┴───────────┘
//! ```
//!
//! When a pool is gone, each word must be one of the few that make sense, and together they must give the numbers the
//! pool tells, to the last task.

use crate::watchdog;
use millpond::{Metrics, TaskError};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};

const BEGIN: u32 = 1;
const END: u32 = 1 << 4;
const DROP: u32 = 1 << 8;
const PANIC: u32 = 1 << 12;
const TOLD_SHIFT: u32 = 16;
const FUTURE: u32 = 1 << 20;
const REFUSED: u32 = 1 << 21;

/// How a task ended, in the order of the pool's counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Completed,
    Panicked,
    Cancelled,
    TimedOut,
    Expired,
    Dropped,
}

const WAYS: [Way; 6] =
    [Way::Completed, Way::Panicked, Way::Cancelled, Way::TimedOut, Way::Expired, Way::Dropped];

pub(crate) struct Ledger {
    words: Box<[AtomicU32]>,
    used: AtomicUsize,
}

impl Ledger {
    pub(crate) fn new(tasks: usize) -> Arc<Self> {
        Arc::new(Self { words: (0..tasks).map(|_| AtomicU32::new(0)).collect(), used: AtomicUsize::new(0) })
    }

    /// A witness for a new task; `None` if the round has had its share.
    pub(crate) fn witness(self: &Arc<Self>, future: bool) -> Option<Witness> {
        let number = self.used.fetch_add(1, Relaxed);
        let word = self.words.get(number)?;
        word.store(if future { FUTURE } else { 0 }, Relaxed);
        Some(Witness { ledger: Arc::clone(self), number })
    }

    /// The task was not taken in.
    pub(crate) fn refused(&self, number: usize) {
        self.words[number].fetch_or(REFUSED, Relaxed);
    }

    /// What the ticket told.
    pub(crate) fn told<T>(&self, number: usize, result: &Result<T, TaskError>) {
        let way = match result {
            Ok(_) => Way::Completed,
            Err(TaskError::Panicked(_)) => Way::Panicked,
            Err(TaskError::Cancelled | TaskError::Abandoned) => Way::Cancelled,
            Err(TaskError::TimedOut) => Way::TimedOut,
            Err(TaskError::Expired) => Way::Expired,
            Err(TaskError::Dropped) => Way::Dropped,
            Err(other) => panic!("task {number}: {other:?}"),
        };
        let before = self.words[number].fetch_or((way as u32 + 1) << TOLD_SHIFT, Relaxed);
        assert_eq!((before >> TOLD_SHIFT) & 0b111, 0, "task {number} was told twice: {before:#x}");
    }

    /// How many tasks there were, refused ones included.
    pub(crate) fn len(&self) -> usize {
        self.used.load(Relaxed).min(self.words.len())
    }

    /// Compares every word with what is possible, and all of them with the pool's numbers.
    pub(crate) fn check(&self, metrics: &Metrics, unseen_drops: bool, round: &str) {
        let mut counts = [0_u64; WAYS.len()];
        for (number, word) in self.words[..self.len()].iter().enumerate() {
            if let Some(way) = way_of(word.load(Relaxed), &format!("{round}: task {number}")) {
                counts[way as usize] += 1;
            }
        }
        let mut told = [
            metrics.completed,
            metrics.panicked,
            metrics.cancelled,
            metrics.timed_out,
            metrics.expired,
            metrics.dropped,
        ];
        if unseen_drops {
            // Of one that nobody waited for it cannot be seen whether it was dropped or cancelled.
            counts[Way::Cancelled as usize] += std::mem::take(&mut counts[Way::Dropped as usize]);
            told[Way::Cancelled as usize] += std::mem::take(&mut told[Way::Dropped as usize]);
        }
        assert_eq!(counts, told, "{round}: {WAYS:?} by the tasks, and by the pool: {metrics:#?}");
        assert_eq!((metrics.tasks_waiting, metrics.futures_live), (0, 0), "{round}: nothing is left");
        assert_eq!((metrics.workers_running, metrics.workers_standing_still), (0, 0), "{round}");
    }
}

/// How a task of a pool that is gone ended; `None` if it was refused.
fn way_of(word: u32, task: &str) -> Option<Way> {
    let count = |one: u32| word / one % 16;
    let (begins, ends, drops, panics) = (count(BEGIN), count(END), count(DROP), word & PANIC != 0);
    let future = word & FUTURE != 0;
    assert_eq!(drops, 1, "{task} was dropped {drops} times: {word:#x}");
    assert!(begins <= 1 && ends <= begins && !(ends == 1 && panics), "{task}: {word:#x}");
    if word & REFUSED != 0 {
        assert!(begins == 0, "{task} was refused and ran: {word:#x}");
        return None;
    }
    let Some(way) = ((word >> TOLD_SHIFT) & 0b111).checked_sub(1).map(|told| WAYS[told as usize]) else {
        // Nobody was told, so the marks tell: what neither ended nor panicked was cancelled.
        let way = match (ends, panics) {
            (1, _) => Way::Completed,
            (_, true) => Way::Panicked,
            _ => Way::Cancelled,
        };
        assert!(way != Way::Cancelled || begins == 0 || future, "{task} vanished: {word:#x}");
        return Some(way);
    };
    let possible = match way {
        Way::Completed => ends == 1,
        Way::Panicked => panics,
        Way::Cancelled => (begins == 0 || future) && ends == 0 && !panics,
        Way::TimedOut => begins == 1,
        Way::Expired | Way::Dropped => begins == 0,
    };
    assert!(possible, "{task} cannot be {way:?}: {word:#x}");
    Some(way)
}

/// What every task holds.
pub(crate) struct Witness {
    ledger: Arc<Ledger>,
    number: usize,
}

impl Witness {
    pub(crate) fn number(&self) -> usize {
        self.number
    }

    pub(crate) fn begin(&self) {
        self.mark(BEGIN);
    }

    pub(crate) fn end(&self) {
        self.mark(END);
    }

    /// Panics, quietly.
    pub(crate) fn panic(&self) -> ! {
        self.mark(PANIC);
        std::panic::resume_unwind(Box::new(self.number))
    }

    fn mark(&self, mark: u32) {
        self.ledger.words[self.number].fetch_add(mark, Relaxed);
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.mark(DROP);
        watchdog::step();
    }
}
