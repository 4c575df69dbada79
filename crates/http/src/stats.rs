//! The door and the tasks in figures, as JSON: `GET /stats`.
//!
//! What somebody wants to know who looks once: how full the line before the door is, how long one waits in
//! it, how many were refused and whether that is worth an alarm, and what the workers have to do. The alert
//! is about the last minute, so it goes by itself when the door has room again.
//!
//! Not here: the same for machines that look every few seconds (`metrics.rs`), and for the page
//! (`api/tick.rs`).

mod minute;

use crate::api::Api;
use crate::door::Door;
use crate::figures::Turned;
use millpond_tasks::Stats;
pub(crate) use minute::{Counted, Minute};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// All of it.
#[derive(Serialize)]
struct Figures {
    /// How long the door has been open.
    uptime_ms: u64,
    is_draining: bool,
    connection_queue: ConnectionQueue,
    connections: Connections,
    /// Places that are held, and how many there are.
    in_flight: usize,
    in_flight_max: usize,
    /// Threads that serve connections.
    http_workers: usize,
    /// Requests that were answered since the start.
    requests_answered: u64,
    /// Workers of the pool that run a task, and how many there should be.
    active_workers: usize,
    workers_wanted: usize,
    tasks: Stats,
}

/// The line before the door.
#[derive(Serialize)]
struct ConnectionQueue {
    depth: usize,
    capacity: usize,
    depth_max: usize,
    /// Of those who had to wait.
    waited: u64,
    wait_mean_ms: f64,
    wait_max_ms: f64,
    /// Connections that came.
    accepted: u64,
    /// Connections, and requests on connections kept open, that were refused since the start.
    refused: u64,
    refused_by_reason: BTreeMap<&'static str, u64>,
    refused_last_minute: u64,
    /// Of all who asked in the last minute: 0 to 1.
    refused_share_last_minute: f64,
    /// Whether that share is above the setting `web.alert_refused_share`.
    alert: bool,
}

/// Open connections by what they do.
#[derive(Serialize)]
struct Connections {
    open: usize,
    open_max: usize,
    idle: usize,
    head: usize,
    busy: usize,
    /// Of the busy ones: requests that wait for a task, and streams.
    waiting: usize,
    streams: usize,
    /// Refused, and given time to read why. These no longer count as open.
    lingering: usize,
}

/// The answer to `GET /stats`.
pub(crate) fn stats_json(api: &Api) -> Vec<u8> {
    serde_json::to_vec(&Figures::now(api)).expect("figures have no keys that are not text")
}

impl Figures {
    fn now(api: &Api) -> Self {
        let door = &api.door;
        let tasks = api.service.stats();
        Self {
            uptime_ms: door.started.elapsed().as_millis() as u64,
            is_draining: door.is_draining(),
            connection_queue: ConnectionQueue::of(door),
            connections: Connections::of(api),
            in_flight: door.line.in_flight(),
            in_flight_max: door.settings.in_flight_max,
            http_workers: door.inboxes.len(),
            requests_answered: door.meter.answered(),
            active_workers: tasks.pool.workers.iter().filter(|worker| worker.is_busy).count(),
            workers_wanted: tasks.pool.workers_wanted,
            tasks,
        }
    }
}

impl ConnectionQueue {
    fn of(door: &Door) -> Self {
        let (line, waits) = (door.line.stats(), door.line.waits());
        let last = door.last_minute();
        let share = last.refused_share();
        let count = waits.count();
        let mean_ms = if count == 0 { 0.0 } else { milliseconds(waits.sum()) / count as f64 };
        Self {
            depth: line.len,
            capacity: line.capacity,
            depth_max: line.len_max,
            waited: count,
            wait_mean_ms: mean_ms,
            wait_max_ms: milliseconds(waits.max()),
            accepted: door.figures.accepted.load(Relaxed),
            refused: door.figures.turned_all(),
            refused_by_reason: Turned::ALL
                .into_iter()
                .map(|why| (why.name(), door.figures.turned(why)))
                .collect(),
            refused_last_minute: last.refused,
            refused_share_last_minute: share,
            alert: share > door.settings.alert_refused_share,
        }
    }
}

impl Connections {
    fn of(api: &Api) -> Self {
        let census = api.door.clients.census();
        Self {
            open: census.idle + census.head + census.busy,
            open_max: api.settings.connections_max,
            idle: census.idle,
            head: census.head,
            busy: census.busy,
            waiting: api.waiting.now(),
            streams: api.streams.now(),
            lingering: api.door.figures.lingering.load(Relaxed),
        }
    }
}

impl Door {
    /// Writes down where the counters stand. The front calls it a few times a second.
    pub(crate) fn note_minute(&self, now: Instant) {
        self.minute.note(now.saturating_duration_since(self.started), self.counted());
    }

    /// How many were answered and refused in the last minute.
    pub(crate) fn last_minute(&self) -> Counted {
        self.minute.last(self.started.elapsed(), self.counted())
    }

    fn counted(&self) -> Counted {
        Counted { answered: self.meter.answered(), refused: self.figures.turned_all() }
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
