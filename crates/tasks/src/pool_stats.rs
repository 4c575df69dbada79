//! The pool at one moment, in figures: its lanes, and its workers with what they do.
//!
//! The pool counts itself and knows closures; which task a worker has, and since when the oldest one waits,
//! is known here.

use crate::request::TaskId;
use crate::service::ServiceHandle;
use crate::status::priority_name;
use crate::task::Stage;
use millpond::{Metrics, Priority, WorkerMetrics};
use serde::Serialize;
use std::time::Instant;

/// The pool at one moment: what `millpond top` shows of it.
#[derive(Clone, Debug, Serialize)]
pub struct PoolStats {
    /// Which worker a task is given to.
    pub strategy: String,
    /// Tasks that wait in the pool's queues.
    pub queued: usize,
    /// How many may wait in each lane.
    pub queue_capacity: usize,
    /// The lanes that all workers share, most urgent first.
    pub lanes: [LaneStats; 3],
    /// Tasks taken from other workers.
    pub stolen: u64,
    /// How many workers there should be.
    pub workers_wanted: usize,
    /// How often the pool decided to have more workers.
    pub scale_ups: u64,
    /// How often it decided to have fewer.
    pub scale_downs: u64,
    /// The workers.
    pub workers: Vec<WorkerStats>,
}

/// One lane of the shared queue.
#[derive(Clone, Debug, Serialize)]
pub struct LaneStats {
    /// Of which priority: `high`, `normal` or `low`.
    pub priority: &'static str,
    /// Tasks that wait in it.
    pub queued: usize,
    /// How many may wait.
    pub capacity: usize,
    /// For how long the oldest task of this priority has been waiting, wherever that is queued.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oldest_ms: Option<u64>,
}

/// One worker.
#[derive(Clone, Debug, Serialize)]
pub struct WorkerStats {
    /// Its number, from 0.
    pub worker: usize,
    /// Where it is in its life: `cold`, `warming`, `ready`, `busy`, `terminating` or `terminated`.
    pub state: String,
    /// Tasks it has run.
    pub completed: u64,
    /// Whether it runs a task now.
    pub is_busy: bool,
    /// The handler of the task it has now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handler: Option<String>,
    /// The task it has now. One that a handler keeps elsewhere, as for a process, is not among these.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_id: Option<TaskId>,
    /// Tasks that wait at it.
    pub queued: usize,
    /// The share of the pool's life in which it ran tasks, estimated: 0 to 1.
    pub utilisation: f64,
    /// How long it has run tasks in all, estimated.
    pub run_total_us: u64,
    /// Tasks it took from others.
    pub stolen: u64,
}

impl ServiceHandle {
    /// The pool at this moment.
    pub fn pool_stats(&self) -> PoolStats {
        let metrics = self.pool_metrics();
        let workers = self.workers(&metrics);
        let in_lanes: usize = metrics.lanes.iter().map(|lane| lane.len).sum();
        PoolStats {
            strategy: self.config().pool.strategy.name().to_owned(),
            queued: in_lanes + workers.iter().map(|worker| worker.queued).sum::<usize>(),
            queue_capacity: self.config().pool.queue_capacity,
            lanes: self.lanes(&metrics),
            stolen: workers.iter().map(|worker| worker.stolen).sum(),
            workers_wanted: metrics.workers_wanted,
            scale_ups: metrics.scaling.ups,
            scale_downs: metrics.scaling.downs,
            workers,
        }
    }

    fn lanes(&self, metrics: &Metrics) -> [LaneStats; 3] {
        let list = &self.shared.list;
        let now = Instant::now();
        let oldest = if list.stages.at(Stage::Queued) == 0 { [None; 3] } else { list.oldest_queued() };
        Priority::ALL.map(|priority| {
            let lane = metrics.lane(priority);
            let since = oldest[priority as usize].map(|since| now.saturating_duration_since(since));
            LaneStats {
                priority: priority_name(priority),
                queued: lane.len,
                capacity: lane.capacity,
                oldest_ms: since.map(|since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX)),
            }
        })
    }

    fn workers(&self, metrics: &Metrics) -> Vec<WorkerStats> {
        let at_work = |worker: &WorkerMetrics| self.shared.at_work.of(worker.id);
        let tasks = self.shared.list.find(metrics.workers.iter().map(at_work).collect());
        let stats = metrics.workers.iter().zip(tasks).map(|(of, task)| WorkerStats {
            worker: of.id,
            state: of.state.to_string(),
            is_busy: of.active > 0,
            completed: of.completed,
            handler: task.as_ref().map(|task| task.handler().to_owned()),
            task_id: task.as_ref().map(|task| task.id().clone()),
            queued: of.tasks_waiting,
            utilisation: of.utilisation,
            run_total_us: crate::outcome::microseconds(of.run_total),
            stolen: of.stolen,
        });
        stats.collect()
    }
}
