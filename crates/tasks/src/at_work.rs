//! What each worker is doing right now: the number of the task it has, and nothing else.
//!
//! A worker writes its own word before and after each task, which costs two plain stores; whoever looks
//! finds the task by the number, if it is still known. A worker that runs another task while one waits
//! inside of it shows the inner one, and the outer again afterwards.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Alone on its cache line, since its worker writes it all the time.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Seat(AtomicU64);

/// By the number of the worker; 0 is no task.
#[derive(Debug)]
pub(crate) struct AtWork {
    seats: Box<[Seat]>,
}

/// A worker has a task until this is dropped.
pub(crate) struct Having<'a> {
    seat: Option<&'a AtomicU64>,
    before: u64,
}

impl AtWork {
    pub(crate) fn new(workers_max: usize) -> Self {
        Self { seats: (0..workers_max).map(|_| Seat::default()).collect() }
    }

    /// This worker, on whose thread we are, has a task from now on.
    pub(crate) fn has(&self, worker: Option<usize>, sequence: u64) -> Having<'_> {
        let seat = worker.and_then(|worker| self.seats.get(worker)).map(|seat| &seat.0);
        // Nobody else writes here, so this needs no swap.
        let before = seat.map_or(0, |seat| seat.load(Relaxed));
        if let Some(seat) = seat {
            seat.store(sequence, Relaxed);
        }
        Having { seat, before }
    }

    /// The number of the task that a worker has; 0 if none.
    pub(crate) fn of(&self, worker: usize) -> u64 {
        self.seats.get(worker).map_or(0, |seat| seat.0.load(Relaxed))
    }
}

impl Drop for Having<'_> {
    fn drop(&mut self) {
        if let Some(seat) = self.seat {
            seat.store(self.before, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_task_is_shown_and_a_stranger_shows_none() {
        let at_work = AtWork::new(2);
        let outer = at_work.has(Some(1), 7);
        let inner = at_work.has(Some(1), 8);
        drop(at_work.has(None, 9));
        drop(at_work.has(Some(2), 9));
        assert_eq!([at_work.of(0), at_work.of(1), at_work.of(2)], [0, 8, 0]);
        drop(inner);
        assert_eq!(at_work.of(1), 7);
        drop(outer);
        assert_eq!(at_work.of(1), 0);
    }
}
