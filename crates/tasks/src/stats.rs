//! What the service has done and has to do, in figures: for `millpond stats`, `top` and the tests.
//!
//! Counters are kept where things happen and put together when somebody asks.

use crate::error::{ErrorCode, TABLE};
use crate::registry::Registered;
use crate::results::ResultStats;
use crate::service::ServiceHandle;
use crate::task::{Stage, Task};
use millpond::policy::histogram::Histogram;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::{Mutex, PoisonError};

/// Counters of the service.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) accepted: AtomicU64,
    pub(crate) retried: AtomicU64,
    /// By place in the table of errors; the first is success.
    ended: [AtomicU64; TABLE.len()],
    refused: [AtomicU64; TABLE.len()],
}

impl Counts {
    /// How many tasks have ended.
    pub(crate) fn ended(&self) -> u64 {
        self.ended.iter().map(|count| count.load(Relaxed)).sum()
    }

    pub(crate) fn was_refused(&self, code: ErrorCode) {
        self.refused[place(code)].fetch_add(1, Relaxed);
    }

    pub(crate) fn has_ended(&self, task: &Task) {
        let Some(outcome) = task.outcome() else { return };
        let code = outcome.result().map_or_else(|failure| failure.code, |_| ErrorCode::Ok);
        self.ended[place(code)].fetch_add(1, Relaxed);
        let Registered { succeeded, failed, waited, ran, .. } = &*task.handler;
        let of_handler = if code == ErrorCode::Ok { succeeded } else { failed };
        of_handler.fetch_add(1, Relaxed);
        if outcome.attempts > 0 {
            record(waited, outcome.waited.as_nanos());
            record(ran, outcome.ran.as_nanos());
        }
    }
}

fn place(code: ErrorCode) -> usize {
    TABLE.iter().position(|row| row.code == code).expect("every code is in the table")
}

fn record(histogram: &Mutex<Histogram>, nanoseconds: u128) {
    let nanoseconds = u64::try_from(nanoseconds).unwrap_or(u64::MAX);
    histogram.lock().unwrap_or_else(PoisonError::into_inner).record(nanoseconds);
}

/// The service at one moment.
#[derive(Clone, Debug, Serialize)]
pub struct Stats {
    /// For how long it has been running.
    pub uptime_ms: u64,
    /// Whether it refuses requests because it ends.
    pub is_draining: bool,
    /// Requests that became tasks.
    pub accepted: u64,
    /// Tasks that succeeded.
    pub succeeded: u64,
    /// Tasks that ended in another way, by the name of the error.
    pub failed: BTreeMap<&'static str, u64>,
    /// Requests that were refused, by the name of the error.
    pub refused: BTreeMap<&'static str, u64>,
    /// Attempts that failed and were followed by another.
    pub retried: u64,
    /// Tasks that ended in the last second.
    pub rate: u64,
    /// Tasks under way, and how many there may be.
    pub live: usize,
    /// The setting `tasks_max`.
    pub tasks_max: usize,
    /// Tasks by where they stand.
    pub stages: BTreeMap<&'static str, usize>,
    /// Outcomes that are kept.
    pub results: ResultStats,
    /// Idempotency keys that are remembered.
    pub keys: usize,
    /// Acts that the timer still has before it.
    pub timers: usize,
    /// Named regions of memory.
    pub regions: usize,
    /// The pool.
    pub pool: PoolStats,
    /// By name.
    pub handlers: BTreeMap<String, HandlerStats>,
}

/// The pool at one moment: what `millpond top` shows of it.
#[derive(Clone, Debug, Serialize)]
pub struct PoolStats {
    /// Which worker a task is given to.
    pub strategy: String,
    /// Tasks that wait in the pool's queues.
    pub queued: usize,
    /// How many may wait in each lane.
    pub queue_capacity: usize,
    /// Tasks taken from other workers.
    pub stolen: u64,
    /// The workers.
    pub workers: Vec<WorkerStats>,
}

/// One worker.
#[derive(Clone, Debug, Serialize)]
pub struct WorkerStats {
    /// Its number, from 0.
    pub worker: usize,
    /// Tasks it has run.
    pub completed: u64,
    /// Whether it runs a task now.
    pub is_busy: bool,
    /// Tasks that wait at it.
    pub queued: usize,
    /// The share of the pool's life in which it ran tasks, estimated: 0 to 1.
    pub utilisation: f64,
    /// Tasks it took from others.
    pub stolen: u64,
}

/// One handler.
#[derive(Clone, Debug, Serialize)]
pub struct HandlerStats {
    /// Tasks accepted for it.
    pub accepted: u64,
    /// Of these, succeeded.
    pub succeeded: u64,
    /// Of these, ended in another way.
    pub failed: u64,
    /// How long they waited for their last attempt.
    pub waited: Times,
    /// How long their last attempt took.
    pub ran: Times,
    /// What the handler says of itself: its processes, for a command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub own: Option<serde_json::Value>,
}

/// How long things took, in microseconds.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Times {
    /// Half took no longer.
    pub p50_us: f64,
    /// 99 of 100 took no longer.
    pub p99_us: f64,
    /// The longest.
    pub max_us: f64,
}

impl Times {
    fn of(histogram: &Mutex<Histogram>) -> Self {
        let histogram = histogram.lock().unwrap_or_else(PoisonError::into_inner);
        let at = |per_10_000| histogram.quantile(per_10_000).map_or(0.0, |ns| ns as f64 / 1000.0);
        Self { p50_us: at(5_000), p99_us: at(9_900), max_us: at(10_000) }
    }
}

impl ServiceHandle {
    /// The service at this moment.
    pub fn stats(&self) -> Stats {
        let shared = &self.shared;
        let counts = &shared.counts;
        let mut stages: BTreeMap<_, _> = Stage::ALL.into_iter().map(|stage| (stage.name(), 0)).collect();
        for task in shared.list.all() {
            *stages.entry(task.lock().stage.name()).or_default() += 1;
        }
        let mut failed = by_name(&counts.ended);
        let succeeded = failed.remove(ErrorCode::Ok.name()).unwrap_or_default();
        Stats {
            uptime_ms: shared.started_at.elapsed().as_millis() as u64,
            is_draining: self.is_draining(),
            accepted: counts.accepted.load(Relaxed),
            succeeded,
            failed,
            refused: by_name(&counts.refused),
            retried: counts.retried.load(Relaxed),
            rate: shared.rate.load(Relaxed),
            live: shared.live.load(Acquire),
            tasks_max: shared.config.tasks_max,
            stages,
            results: shared.results.stats(),
            keys: shared.keys.len(),
            timers: shared.timer.len(),
            regions: shared.symbols.len(),
            pool: self.pool_stats(),
            handlers: shared.registry.all().map(|of| (of.name.to_string(), handler_stats(of))).collect(),
        }
    }
}

impl ServiceHandle {
    fn pool_stats(&self) -> PoolStats {
        let metrics = self.pool_metrics();
        let worker = |of: &millpond::WorkerMetrics| WorkerStats {
            worker: of.id,
            is_busy: of.active > 0,
            completed: of.completed,
            queued: of.tasks_waiting,
            utilisation: of.utilisation,
            stolen: of.stolen,
        };
        let workers: Vec<_> = metrics.workers.iter().map(worker).collect();
        let in_lanes: usize = metrics.lanes.iter().map(|lane| lane.len).sum();
        PoolStats {
            strategy: self.config().pool.strategy.name().to_owned(),
            queued: in_lanes + workers.iter().map(|worker| worker.queued).sum::<usize>(),
            queue_capacity: self.config().pool.queue_capacity,
            stolen: workers.iter().map(|worker| worker.stolen).sum(),
            workers,
        }
    }
}

fn by_name(counts: &[AtomicU64; TABLE.len()]) -> BTreeMap<&'static str, u64> {
    let counted = TABLE.iter().zip(counts).map(|(row, count)| (row.name, count.load(Relaxed)));
    counted.filter(|(_, count)| *count > 0).collect()
}

fn handler_stats(of: &std::sync::Arc<Registered>) -> HandlerStats {
    HandlerStats {
        accepted: of.accepted.load(Relaxed),
        succeeded: of.succeeded.load(Relaxed),
        failed: of.failed.load(Relaxed),
        waited: Times::of(&of.waited),
        ran: Times::of(&of.ran),
        own: of.handler.stats(),
    }
}
