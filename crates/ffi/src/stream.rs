//! The reader of one task's stream: what `threadpool_next_partial` takes from.
//!
//! The task tells that there is something to read, and whoever waits reads it: so what nobody reads is held
//! by the service, within its limits, and slows down the handler that says it and nobody else.
//!
//! Not here: which task has a stream (`numbers.rs`).

use millpond_tasks::{StreamEvent, Task, Watch, Watching};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// About how much is taken from a stream at once.
const READ_BYTES: usize = 64 << 10;

/// One reader.
#[derive(Default)]
pub(crate) struct StreamReader {
    /// None until the task was accepted.
    taken: Mutex<Option<Taken>>,
    /// How often the task has told of something.
    told: Mutex<u64>,
    more: Condvar,
}

struct Taken {
    watching: Watching,
    /// Read from the stream and not yet asked for.
    events: VecDeque<StreamEvent>,
}

/// What came of asking for the next event.
pub(crate) enum Next {
    /// An event, as one line of JSON.
    Event(Vec<u8>),
    /// There is none yet.
    NotYet,
    /// The task has ended, and everything it said was read.
    Over,
}

impl Watch for StreamReader {
    fn told(&self, _tag: u64, _task: &Arc<Task>) {
        *self.told.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.more.notify_all();
    }
}

impl StreamReader {
    /// The task was accepted.
    pub(crate) fn begin(&self, watching: Watching) {
        *self.lock() = Some(Taken { watching, events: VecDeque::new() });
    }

    /// The next event, waiting for one until then.
    pub(crate) fn next(&self, until: Instant) -> Next {
        loop {
            let told = *self.told.lock().unwrap_or_else(PoisonError::into_inner);
            match self.read() {
                Next::NotYet => {}
                other => return other,
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Next::NotYet;
            }
            let count = self.told.lock().unwrap_or_else(PoisonError::into_inner);
            let same = |count: &mut u64| *count == told;
            let woken = millpond::blocking(|| self.more.wait_timeout_while(count, left, same));
            drop(woken);
        }
    }

    fn read(&self) -> Next {
        let mut guard = self.lock();
        let Some(taken) = guard.as_mut() else { return Next::NotYet };
        if taken.events.is_empty() {
            // Asked first: what was said before the end is then surely read.
            let is_ended = taken.watching.task().is_ended();
            let mut events = Vec::new();
            taken.watching.read(READ_BYTES, &mut events);
            if events.is_empty() {
                return if is_ended { Next::Over } else { Next::NotYet };
            }
            taken.events.extend(events);
        }
        let mut line = Vec::new();
        if let Some(event) = taken.events.pop_front() {
            event.write_json(&mut line);
        }
        Next::Event(line)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Taken>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
