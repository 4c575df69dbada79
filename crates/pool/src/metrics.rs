//! What a pool tells about itself: a picture taken when somebody asks, from counters each thread keeps for itself.
//!
//! The numbers are read one after the other while the pool goes on, so they may not add up to the last task until it
//! is at rest; then they do, exactly: every task that was taken in is waiting, running, or in one of the endings.

use crate::counters::{Counters, Ending};
use crate::options::Priority;
use crate::shared::Shared;
use millpond_queue::GateStats;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A picture of a pool.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Metrics {
    /// How many workers there should be.
    pub workers_wanted: usize,
    /// How many run, with those that search and sleep, and without those that stand still.
    pub workers_running: usize,
    /// How many wait for something other than work.
    pub workers_standing_still: usize,
    /// How many sleep.
    pub workers_asleep: usize,
    /// How many look for work.
    pub workers_searching: usize,
    /// How many run a task, or wait inside of one.
    pub workers_busy: usize,
    /// How often a worker stood still and there was no room for another to stand in.
    pub workers_unrelieved: u64,
    /// How many tasks wait, in all queues together.
    pub tasks_waiting: usize,
    /// How many async tasks live, whether they wait or run, with those whose submitter waits for room.
    pub futures_live: usize,
    /// How many live tasks have a deadline.
    pub deadlines: usize,
    /// How many tasks ran to their end.
    pub completed: u64,
    /// How many panicked.
    pub panicked: u64,
    /// How many were cancelled.
    pub cancelled: u64,
    /// How many were not done by their deadline.
    pub timed_out: u64,
    /// How many had not begun by their deadline.
    pub expired: u64,
    /// How many were dropped because the queue was full.
    pub dropped: u64,
    /// How often a start or stop hook panicked.
    pub hooks_panicked: u64,
    /// The shared queue, lane by lane, most urgent first.
    pub lanes: [GateStats; 3],
    /// The workers, by the number of their seat.
    pub workers: Vec<WorkerMetrics>,
}

/// A picture of one worker's seat, since the start of the pool.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct WorkerMetrics {
    /// Tasks that wait in its own queue and in its inbox.
    pub tasks_waiting: usize,
    /// Tasks that ran to their end here.
    pub completed: u64,
    /// Tasks that panicked here.
    pub panicked: u64,
    /// Tasks taken from other workers.
    pub stolen: u64,
    /// Tasks run in place by a task that submitted them to a full pool.
    pub ran_in_place: u64,
    /// Times it went to sleep.
    pub sleeps: u64,
}

impl Metrics {
    /// How many tasks have ended, in any way.
    pub fn ended(&self) -> u64 {
        self.completed + self.panicked + self.cancelled + self.timed_out + self.expired + self.dropped
    }

    /// The shared lane of this priority.
    pub fn lane(&self, priority: Priority) -> &GateStats {
        &self.lanes[priority.lane()]
    }

    pub(crate) fn of(shared: &Shared) -> Self {
        let (workers_running, workers_standing_still) = {
            let roll = shared.crew.roll();
            (roll.running, roll.standing_still)
        };
        Self {
            workers_wanted: shared.crew.wanted(),
            workers_running,
            workers_standing_still,
            workers_asleep: shared.sleep.asleep(),
            workers_searching: shared.sleep.searching(),
            workers_busy: shared.busy(),
            workers_unrelieved: shared.crew.unrelieved(),
            tasks_waiting: shared.waiting(),
            futures_live: shared.futures.live(),
            deadlines: shared.timer.len(),
            completed: shared.endings(Ending::Completed),
            panicked: shared.endings(Ending::Panicked),
            cancelled: shared.endings(Ending::Cancelled),
            timed_out: shared.endings(Ending::TimedOut),
            expired: shared.endings(Ending::Expired),
            dropped: shared.endings(Ending::Dropped),
            hooks_panicked: shared.crew.hook_panics(),
            lanes: Priority::ALL.map(|priority| shared.lanes.stats(priority)),
            workers: shared.seats().map(|seat| WorkerMetrics::of(&seat.counters, seat.len())).collect(),
        }
    }
}

impl WorkerMetrics {
    fn of(counters: &Counters, tasks_waiting: usize) -> Self {
        let read = |counter: &AtomicU64| counter.load(Relaxed);
        Self {
            tasks_waiting,
            completed: counters.endings(Ending::Completed),
            panicked: counters.endings(Ending::Panicked),
            stolen: read(&counters.stolen),
            ran_in_place: read(&counters.ran_in_place),
            sleeps: read(&counters.sleeps),
        }
    }
}
