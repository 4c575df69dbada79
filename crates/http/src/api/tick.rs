//! The figures of one moment, as the dashboard and `millpond top` want them, with what is worth a warning.
//!
//! Totals are since the start, and whoever reads them makes rates of them: a figure that was missed is then
//! no figure that is wrong. Streams that want figures at nearly the same moment share them, so that a hundred
//! open dashboards cost about as much as one.

use super::Api;
use crate::clients::Census;
use bytes::Bytes;
use millpond_tasks::{Buckets, LATENCY_BOUNDS_US, LaneStats, Latency, PoolStats, Stats, WorkerStats};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// For how long figures are as good as new.
const SHARED_FOR: Duration = Duration::from_millis(50);
/// From which part on something counts as nearly full, in percent.
const NEARLY_FULL: usize = 80;
/// After which time a task that waits is worth a warning.
const LONG_WAIT_MS: u64 = 10_000;

/// The last figures that were taken.
#[derive(Debug, Default)]
pub(super) struct Ticks(Mutex<Option<(Instant, Bytes)>>);

impl Ticks {
    /// The figures of this moment, as JSON.
    pub(super) fn now(&self, api: &Api) -> Bytes {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*last {
            Some((taken, tick)) if taken.elapsed() < SHARED_FOR => tick.clone(),
            _ => {
                let tick =
                    serde_json::to_vec(&Tick::now(api)).expect("structs of texts and numbers are JSON");
                let tick = Bytes::from(tick);
                *last = Some((Instant::now(), tick.clone()));
                tick
            }
        }
    }
}

/// The figures of one moment.
#[derive(Serialize)]
struct Tick {
    at_ms: u64,
    uptime_ms: u64,
    is_draining: bool,
    accepted: u64,
    succeeded: u64,
    failed: u64,
    refused: u64,
    retried: u64,
    rate: u64,
    live: usize,
    tasks_max: usize,
    stages: BTreeMap<&'static str, usize>,
    lanes: [LaneStats; 3],
    workers: Vec<WorkerStats>,
    workers_wanted: usize,
    steals: u64,
    scale_ups: u64,
    scale_downs: u64,
    results: Results,
    ran: Buckets,
    waited: Buckets,
    connections: Connections,
    warnings: Vec<String>,
}

#[derive(Serialize)]
struct Results {
    kept: usize,
    bytes: u64,
}

#[derive(Serialize)]
struct Connections {
    open: usize,
    idle: usize,
    in_flight: usize,
    queue: usize,
    queue_capacity: usize,
    refused: u64,
    accepted: u64,
    streams: usize,
    waiting: usize,
}

impl Tick {
    fn now(api: &Api) -> Self {
        let stats = api.service.stats();
        let Latency { waited, ran } = api.service.latency(LATENCY_BOUNDS_US);
        let connections = Connections::now(api);
        let warnings = warnings(&stats, &connections);
        let Stats { pool, results, .. } = stats;
        let PoolStats { lanes, workers, workers_wanted, stolen, scale_ups, scale_downs, .. } = pool;
        Self {
            at_ms: unix_ms(),
            uptime_ms: stats.uptime_ms,
            is_draining: stats.is_draining,
            accepted: stats.accepted,
            succeeded: stats.succeeded,
            failed: stats.failed.values().sum(),
            refused: stats.refused.values().sum(),
            retried: stats.retried,
            rate: stats.rate,
            live: stats.live,
            tasks_max: stats.tasks_max,
            stages: stats.stages,
            lanes,
            workers,
            workers_wanted,
            steals: stolen,
            scale_ups,
            scale_downs,
            results: Results { kept: results.kept, bytes: results.bytes },
            ran,
            waited,
            connections,
            warnings,
        }
    }
}

impl Connections {
    fn now(api: &Api) -> Self {
        let Census { idle, head, busy, .. } = api.door.clients.census();
        Self {
            open: idle + head + busy,
            idle,
            in_flight: api.door.line.in_flight(),
            queue: api.door.line.len(),
            queue_capacity: api.settings.queue_capacity,
            refused: api.door.figures.turned_all(),
            accepted: api.door.figures.accepted.load(Relaxed),
            streams: api.streams.now(),
            waiting: api.waiting.now(),
        }
    }
}

/// What somebody who looks should know, in sentences.
fn warnings(stats: &Stats, connections: &Connections) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut nearly_full = |what: &str, now: usize, max: usize, setting: &str| {
        if max > 0 && now.saturating_mul(100) / max >= NEARLY_FULL {
            let percent = now.saturating_mul(100) / max;
            warnings.push(format!(
                "{what}: {percent} % full ({now} of {max}); what comes is refused soon, or raise {setting}"
            ));
        }
    };
    for lane in &stats.pool.lanes {
        nearly_full(&format!("the {} lane", lane.priority), lane.queued, lane.capacity, "queue_capacity");
    }
    nearly_full("tasks under way", stats.live, stats.tasks_max, "tasks_max");
    nearly_full("the line of requests", connections.queue, connections.queue_capacity, "web.queue_capacity");
    for lane in &stats.pool.lanes {
        if let Some(oldest_ms) = lane.oldest_ms.filter(|oldest_ms| *oldest_ms >= LONG_WAIT_MS) {
            let (priority, seconds) = (lane.priority, oldest_ms / 1000);
            warnings.push(format!(
                "the oldest task of priority {priority} has waited for {seconds} s; add workers"
            ));
        }
    }
    if let Some(nats) = stats.nats.as_ref().filter(|nats| !nats.connected) {
        warnings.push(format!(
            "the NATS server {} cannot be reached; tasks of queue {} wait",
            nats.url, nats.queue
        ));
    }
    if stats.is_draining {
        warnings.push("the daemon is shutting down and takes no more tasks".to_owned());
    }
    warnings
}

/// The time of day, in milliseconds since 1970.
fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
