//! Workers kept busy until they are told to go on, and pools to keep them in.
//!
//! While every worker is busy nothing that is submitted can begin, so a test knows exactly what waits and where.

use crate::eventually::eventually;
use millpond::{Pool, PoolConfig, PoolHandle, Ticket};
use std::sync::mpsc::{self, Sender};
use std::thread;

/// A pool with so many workers and otherwise the defaults.
pub(crate) fn pool(workers: usize) -> Pool {
    start(PoolConfig { workers, ..PoolConfig::default() })
}

/// A pool with so many workers, whose lanes hold so many tasks each.
pub(crate) fn small_pool(workers: usize, queue_capacity: usize) -> Pool {
    start(PoolConfig { workers, queue_capacity, ..PoolConfig::default() })
}

/// A pool that cannot have a second worker, not even while the first one waits.
pub(crate) fn lone_worker(queue_capacity: usize) -> Pool {
    start(PoolConfig {
        workers: 1,
        workers_max: 1,
        queue_capacity,
        local_capacity: 64,
        ..PoolConfig::default()
    })
}

pub(crate) fn start(config: PoolConfig) -> Pool {
    Pool::start(config).unwrap()
}

/// A worker that is busy until this is dropped.
pub(crate) struct Busy {
    /// The name of the worker's thread.
    pub(crate) thread: String,
    go_on: Sender<()>,
    ticket: Ticket<()>,
}

impl Busy {
    /// Keeps one worker busy that is not so yet, and returns when it is.
    pub(crate) fn one(pool: &PoolHandle) -> Self {
        let (go_on, told) = mpsc::channel();
        let (begun, begins) = mpsc::channel();
        let ticket = pool.submit(move || {
            begun.send(thread_name()).unwrap();
            // Either way it may go on: it is told so, or nobody is left to tell it.
            let _ = told.recv();
        });
        let thread = begins.recv().unwrap();
        Self { thread, go_on, ticket: ticket.unwrap() }
    }

    /// Keeps so many workers busy.
    pub(crate) fn many(pool: &PoolHandle, workers: usize) -> Vec<Self> {
        (0..workers).map(|_| Self::one(pool)).collect()
    }

    /// Lets the worker go on, and returns when its task has ended.
    pub(crate) fn release(self) {
        drop(self.go_on);
        self.ticket.wait().unwrap();
    }
}

/// Returns when every worker of the pool sleeps.
pub(crate) fn until_asleep(pool: &PoolHandle) {
    eventually("every worker sleeps", || {
        let metrics = pool.metrics();
        metrics.workers_asleep == metrics.workers_running && metrics.workers_running == metrics.workers_wanted
    });
}

/// The name of the calling thread, which for a worker is that of its pool and the number of its seat.
pub(crate) fn thread_name() -> String {
    thread::current().name().unwrap_or_default().to_owned()
}
