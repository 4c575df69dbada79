//! The limit for small closures: tasks that travel inside the slots of a ring, and workers that never sleep.
//!
//! A task is a function and its arguments, seven words in all, so that a slot of the ring is one cache line.
//! There is no admission, no counter, no wake-up and nothing to steal; what a pool adds to this is its price.
//!
//! Not here: a pool (`millpond_pool.rs`).

use super::pools::Threads;
use crate::ledger::Ledger;
use crossbeam_utils::Backoff;
use millpond_queue::Ring;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// With the turn of its slot, 64 bytes.
struct Task {
    run: fn(&'static Ledger, u64),
    ledger: &'static Ledger,
    item: u64,
    /// As large as the room a small closure gets, since the whole of it travels.
    _room: [usize; 4],
}

/// A ring of tasks and the threads that spin at it.
pub(crate) struct InlineTasks {
    ring: Arc<Ring<Task>>,
    _stop: Stop,
    _threads: Threads,
}

/// Tells the threads to stop, by being dropped before they are waited for.
struct Stop(Arc<AtomicBool>);

impl Drop for Stop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

impl InlineTasks {
    pub(crate) fn start(workers: usize, capacity: usize) -> Self {
        let ring = Arc::new(Ring::with_capacity(capacity).expect("the capacity is a valid constant"));
        let stop = Stop(Arc::default());
        let threads = Threads::start(workers, || {
            let (ring, stopped): (Arc<Ring<Task>>, _) = (Arc::clone(&ring), Arc::clone(&stop.0));
            Box::new(move || work(&ring, &stopped))
        });
        Self { ring, _stop: stop, _threads: threads }
    }

    /// Waits for room.
    #[inline]
    pub(crate) fn spawn(&self, run: fn(&'static Ledger, u64), ledger: &'static Ledger, item: u64) {
        let mut task = Task { run, ledger, item, _room: [0; 4] };
        let backoff = Backoff::new();
        while let Err(refused) = self.ring.push(task) {
            task = refused;
            backoff.snooze();
        }
    }
}

fn work(ring: &Ring<Task>, stopped: &AtomicBool) {
    let backoff = Backoff::new();
    while !stopped.load(Ordering::Acquire) {
        match ring.pop() {
            Some(task) => {
                (task.run)(task.ledger, task.item);
                backoff.reset();
            }
            None => backoff.snooze(),
        }
    }
}
