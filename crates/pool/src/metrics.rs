//! What a pool tells about itself: a picture taken when somebody asks, from counters each thread keeps for itself.
//!
//! The numbers are read one after the other while the pool goes on, so they may not add up to the last task until it
//! is at rest; then they do, exactly: every task that was taken in is waiting, running, or in one of the endings.
//! Times are those of the tasks that were timed, one in so many (`latency.rs`).
//!
//! Not here: the text for Prometheus (`prometheus.rs`), and what happens instead of how much (`events.rs`).

mod parts;
mod rate;

pub use parts::{
    AffinityMetrics, LatencyBucket, LatencyMetrics, PressureMetrics, QueueMetrics, ScaleMetrics,
    StealMetrics, ThroughputMetrics, WorkerMetrics,
};
pub(crate) use rate::Rate;

use crate::block;
use crate::counters::Ending;
use crate::latency::Timings;
use crate::options::Priority;
use crate::shared::Shared;
use millpond_policy::Moment;
use millpond_queue::GateStats;
use std::time::Duration;

/// A picture of a pool.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Metrics {
    /// For how long the pool has been there.
    pub uptime: Duration,
    /// How much it does in a second, and how long a task takes.
    pub throughput: ThroughputMetrics,
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
    /// How much memory of ended tasks waits for the next ones, in bytes, of all pools of the process.
    pub kept_bytes: usize,
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
    /// How long timed tasks waited, from submit to start.
    pub wait: LatencyMetrics,
    /// How long timed tasks ran, from start to end. A future that waits is not among them.
    pub run: LatencyMetrics,
    /// What went through the shared queue and the workers' inboxes.
    pub queue: QueueMetrics,
    /// What full queues meant for submitters.
    pub pressure: PressureMetrics,
    /// What workers took from each other.
    pub stealing: StealMetrics,
    /// How the number of workers changed.
    pub scaling: ScaleMetrics,
    /// What became of tasks with a key.
    pub affinity: AffinityMetrics,
    /// The shared queue, lane by lane, most urgent first.
    pub lanes: [GateStats; 3],
    /// The workers, by the number of their seat.
    pub workers: Vec<WorkerMetrics>,
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
        let now = shared.now();
        let uptime = now.since(Moment::ZERO);
        let timings = Timings::of(shared);
        let bounds = &shared.config.metrics.bounds;
        let (wait, run) =
            (LatencyMetrics::of(&timings.wait, bounds), LatencyMetrics::of(&timings.run, bounds));
        let (completed, panicked) = (shared.endings(Ending::Completed), shared.endings(Ending::Panicked));
        let lanes = Priority::ALL.map(|priority| shared.lanes.stats(priority));
        let workers: Vec<_> =
            shared.seats().enumerate().map(|(id, seat)| WorkerMetrics::of(shared, id, seat, now)).collect();
        Self {
            uptime,
            throughput: ThroughputMetrics {
                tasks_per_second: shared.rate.per_second(uptime, completed + panicked),
                latency_mean: wait.mean + run.mean,
            },
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
            kept_bytes: block::kept_bytes(),
            completed,
            panicked,
            cancelled: shared.endings(Ending::Cancelled),
            timed_out: shared.endings(Ending::TimedOut),
            expired: shared.endings(Ending::Expired),
            dropped: shared.endings(Ending::Dropped),
            hooks_panicked: shared.crew.hook_panics() + shared.choosing.panics(),
            wait,
            run,
            queue: QueueMetrics::of(&lanes, shared.seats()),
            pressure: PressureMetrics::of(&shared.pressure, shared.endings(Ending::Dropped)),
            stealing: StealMetrics::of(&workers),
            scaling: ScaleMetrics::of(shared),
            affinity: AffinityMetrics::of(&shared.affinity.counts),
            lanes,
            workers,
        }
    }
}
