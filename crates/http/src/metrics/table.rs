//! The table of all metrics that the daemon shows beside those of its pool.
//!
//! A name begins with `millpond_`, but for what every process has; times are in seconds; what only grows ends
//! in `_total`. What the pool counts itself (steals, scaling, keys, each worker) has its names there and is
//! not repeated here. Whoever adds a row runs the tests with `MILLPOND_WRITE_PAGES=1`, which renews
//! `docs/metrics.md`.

use super::text::Kind::{Counter, Gauge, Histogram};
use super::text::{Metric, Spread};
use super::{OTHER, spread};
use crate::api::routes::ROUTES;
use crate::figures::{Cut, Turned, WAIT_BOUNDS_US};
use crate::meter::DURATION_BOUNDS_US;
use millpond_tasks::{ErrorCode, Stats};
use std::sync::atomic::Ordering::Relaxed;

/// The states of workers that there can be any of.
const WORKER_STATES: [&str; 5] = ["cold", "warming", "ready", "busy", "terminating"];

/// How tasks ended, in five words.
fn endings(stats: &Stats) -> [(&'static str, u64); 5] {
    let with = |code: ErrorCode| stats.failed.get(code.name()).copied().unwrap_or_default();
    let cancelled = with(ErrorCode::Cancelled);
    let timeout = with(ErrorCode::TimedOut) + with(ErrorCode::Expired);
    let dropped = with(ErrorCode::Dropped);
    let failed = stats.failed.values().sum::<u64>().saturating_sub(cancelled + timeout + dropped);
    [
        ("completed", stats.succeeded),
        ("failed", failed),
        ("cancelled", cancelled),
        ("timeout", timeout),
        ("dropped", dropped),
    ]
}

/// Path and method of every route, in the order of the meter's rows.
fn routes() -> impl Iterator<Item = (&'static str, &'static str)> {
    ROUTES.iter().map(|route| (route.path(), route.method())).chain([(OTHER, OTHER)])
}

pub(super) const TABLE: &[Metric] = &[
    Metric {
        area: "tasks",
        name: "millpond_tasks_submitted_total",
        kind: Counter,
        labels: &["door"],
        help: "Requests that became tasks, by the door they came by",
        series: |now, series| {
            for (door, count) in &now.tasks.doors {
                series.labelled(&[door], count);
            }
        },
    },
    Metric {
        area: "tasks",
        name: "millpond_tasks_total",
        kind: Counter,
        labels: &["status"],
        help: "Tasks that have ended, by how they did",
        series: |now, series| {
            for (status, count) in endings(&now.tasks) {
                series.labelled(&[&status], count);
            }
        },
    },
    Metric {
        area: "tasks",
        name: "millpond_tasks_failed_total",
        kind: Counter,
        labels: &["error"],
        help: "Tasks that ended with an error, by its name",
        series: |now, series| {
            for (error, count) in &now.tasks.failed {
                series.labelled(&[error], count);
            }
        },
    },
    Metric {
        area: "tasks",
        name: "millpond_tasks_rejected_total",
        kind: Counter,
        labels: &["reason", "policy"],
        help: "Requests that did not become tasks, by the name of the error, and what a full queue means",
        series: |now, series| {
            for (reason, count) in &now.tasks.refused {
                series.labelled(&[reason, &now.policy], count);
            }
        },
    },
    Metric {
        area: "tasks",
        name: "millpond_tasks_retried_total",
        kind: Counter,
        labels: &[],
        help: "Attempts that failed and were followed by another",
        series: |now, series| series.value(now.tasks.retried),
    },
    Metric {
        area: "tasks",
        name: "millpond_tasks_live",
        kind: Gauge,
        labels: &[],
        help: "Tasks that wait or run",
        series: |now, series| series.value(now.tasks.live),
    },
    Metric {
        area: "tasks",
        name: "millpond_tasks_live_max",
        kind: Gauge,
        labels: &[],
        help: "How many may",
        series: |now, series| series.value(now.tasks.tasks_max),
    },
    Metric {
        area: "tasks",
        name: "millpond_tasks_by_stage",
        kind: Gauge,
        labels: &["stage"],
        help: "Tasks that are known, by where they stand",
        series: |now, series| {
            for (stage, count) in &now.tasks.stages {
                series.labelled(&[stage], count);
            }
        },
    },
    Metric {
        area: "tasks",
        name: "millpond_task_duration_seconds",
        kind: Histogram,
        labels: &["handler"],
        help: "How long the last attempt of tasks took, of those that began",
        series: |now, series| {
            for (handler, of) in &now.handlers {
                series.spread(&[handler], &spread(&of.ran));
            }
        },
    },
    Metric {
        area: "tasks",
        name: "millpond_task_queue_wait_seconds",
        kind: Histogram,
        labels: &["handler"],
        help: "How long those tasks waited, from acceptance to their last attempt",
        series: |now, series| {
            for (handler, of) in &now.handlers {
                series.spread(&[handler], &spread(&of.waited));
            }
        },
    },
    Metric {
        area: "tasks",
        name: "millpond_handler_tasks_total",
        kind: Counter,
        labels: &["handler", "status"],
        help: "Tasks of a handler that have ended",
        series: |now, series| {
            for (handler, of) in &now.handlers {
                series.labelled(&[handler, &"completed"], of.succeeded);
                series.labelled(&[handler, &"failed"], of.failed);
            }
        },
    },
    Metric {
        area: "tasks",
        name: "millpond_idempotency_keys",
        kind: Gauge,
        labels: &[],
        help: "Idempotency keys that are remembered",
        series: |now, series| series.value(now.tasks.keys),
    },
    Metric {
        area: "tasks",
        name: "millpond_timers_pending",
        kind: Gauge,
        labels: &[],
        help: "Delays, pauses and time limits of tasks that are not over",
        series: |now, series| series.value(now.tasks.timers),
    },
    Metric {
        area: "queue",
        name: "millpond_queue_depth",
        kind: Gauge,
        labels: &["queue"],
        help: "Tasks that wait in a lane of the pool, by priority",
        series: |now, series| {
            for lane in &now.tasks.pool.lanes {
                series.labelled(&[&lane.priority], lane.queued);
            }
        },
    },
    Metric {
        area: "queue",
        name: "millpond_queue_capacity",
        kind: Gauge,
        labels: &["queue"],
        help: "Tasks that may wait in it",
        series: |now, series| {
            for lane in &now.tasks.pool.lanes {
                series.labelled(&[&lane.priority], lane.capacity);
            }
        },
    },
    Metric {
        area: "queue",
        name: "millpond_queue_oldest_age_seconds",
        kind: Gauge,
        labels: &["queue"],
        help: "For how long the oldest task of this priority has been waiting",
        series: |now, series| {
            for lane in &now.tasks.pool.lanes {
                series.labelled(&[&lane.priority], lane.oldest_ms.unwrap_or(0) as f64 / 1000.0);
            }
        },
    },
    Metric {
        area: "queue",
        name: "millpond_workers",
        kind: Gauge,
        labels: &["state"],
        help: "Workers of the pool, by where they are in their life",
        series: |now, series| {
            for state in WORKER_STATES {
                let count = now.tasks.pool.workers.iter().filter(|worker| worker.state == state).count();
                series.labelled(&[&state], count);
            }
        },
    },
    Metric {
        area: "results",
        name: "millpond_results_retained",
        kind: Gauge,
        labels: &[],
        help: "Outcomes that are kept until they are fetched",
        series: |now, series| series.value(now.tasks.results.kept),
    },
    Metric {
        area: "results",
        name: "millpond_results_retained_bytes",
        kind: Gauge,
        labels: &[],
        help: "About how much memory they take",
        series: |now, series| series.value(now.tasks.results.bytes),
    },
    Metric {
        area: "results",
        name: "millpond_results_evicted_total",
        kind: Counter,
        labels: &["reason"],
        help: "Outcomes that went unfetched, for want of room or of age",
        series: |now, series| {
            series.labelled(&[&"room"], now.tasks.results.dropped);
            series.labelled(&[&"age"], now.tasks.results.aged);
        },
    },
    Metric {
        area: "connections",
        name: "millpond_connection_queue_depth",
        kind: Gauge,
        labels: &[],
        help: "Connections and requests that wait before the door",
        series: |now, series| series.value(now.door.line.len()),
    },
    Metric {
        area: "connections",
        name: "millpond_connection_queue_capacity",
        kind: Gauge,
        labels: &[],
        help: "How many may wait; whoever comes then is refused",
        series: |now, series| series.value(now.door.settings.queue_capacity),
    },
    Metric {
        area: "connections",
        name: "millpond_connection_queue_max_depth",
        kind: Gauge,
        labels: &[],
        help: "The most that were seen to wait at once",
        series: |now, series| series.value(now.door.line.stats().len_max),
    },
    Metric {
        area: "connections",
        name: "millpond_connection_queue_wait_seconds",
        kind: Histogram,
        labels: &[],
        help: "How long those waited who had to",
        series: |now, series| {
            let waits = now.door.line.waits();
            let sum_seconds = waits.sum().as_secs_f64();
            series.spread(&[], &Spread { bounds_us: &WAIT_BOUNDS_US, counts: &waits.buckets(), sum_seconds });
        },
    },
    Metric {
        area: "connections",
        name: "millpond_connections_open",
        kind: Gauge,
        labels: &["state"],
        help: "Connections: idle, sending a head, being answered, parked, or refused and being let go",
        series: |now, series| {
            let parked = now.waiting.0 + now.streams.0;
            series.labelled(&[&"idle"], now.census.idle);
            series.labelled(&[&"head"], now.census.head);
            series.labelled(&[&"active"], now.census.busy.saturating_sub(parked));
            series.labelled(&[&"parked"], parked.min(now.census.busy));
            series.labelled(&[&"draining"], now.door.figures.lingering.load(Relaxed));
        },
    },
    Metric {
        area: "connections",
        name: "millpond_connections_open_max",
        kind: Gauge,
        labels: &[],
        help: "How many may be open",
        series: |now, series| series.value(now.door.settings.connections_max),
    },
    Metric {
        area: "connections",
        name: "millpond_connections_accepted_total",
        kind: Counter,
        labels: &[],
        help: "Connections that came",
        series: |now, series| series.value(now.door.figures.accepted.load(Relaxed)),
    },
    Metric {
        area: "connections",
        name: "millpond_connections_rejected_total",
        kind: Counter,
        labels: &["reason"],
        help: "Connections, and requests on connections kept open, that were refused before they were read",
        series: |now, series| {
            for why in Turned::ALL {
                series.labelled(&[&why.name()], now.door.figures.turned(why));
            }
        },
    },
    Metric {
        area: "connections",
        name: "millpond_connections_cut_total",
        kind: Counter,
        labels: &["reason"],
        help: "Connections that the door ended",
        series: |now, series| {
            for why in Cut::ALL {
                series.labelled(&[&why.name()], now.door.figures.cut(why));
            }
        },
    },
    Metric {
        area: "connections",
        name: "millpond_connections_broken_total",
        kind: Counter,
        labels: &[],
        help: "Connections that ended in the middle of something, or were no HTTP",
        series: |now, series| series.value(now.door.figures.broken.load(Relaxed)),
    },
    Metric {
        area: "requests",
        name: "millpond_http_in_flight",
        kind: Gauge,
        labels: &[],
        help: "Requests that are being worked on",
        series: |now, series| series.value(now.door.line.in_flight()),
    },
    Metric {
        area: "requests",
        name: "millpond_http_in_flight_max",
        kind: Gauge,
        labels: &[],
        help: "How many may be",
        series: |now, series| series.value(now.door.settings.in_flight_max),
    },
    Metric {
        area: "requests",
        name: "millpond_http_requests_total",
        kind: Counter,
        labels: &["route", "method", "code"],
        help: "Requests that were answered",
        series: |now, series| {
            for ((route, method), row) in routes().zip(now.door.meter.rows()) {
                for (status, count) in row.statuses() {
                    match status {
                        0 => series.labelled(&[&route, &method, &OTHER], count),
                        status => series.labelled(&[&route, &method, &status], count),
                    }
                }
            }
        },
    },
    Metric {
        area: "requests",
        name: "millpond_http_request_duration_seconds",
        kind: Histogram,
        labels: &["route", "method"],
        help: "How long answers took, from the head of the request to that of the answer",
        series: |now, series| {
            for ((route, method), row) in routes().zip(now.door.meter.rows()) {
                if row.count() > 0 {
                    let (counts, sum_seconds) = (row.buckets(), row.sum().as_secs_f64());
                    let spread = Spread { bounds_us: &DURATION_BOUNDS_US, counts: &counts, sum_seconds };
                    series.spread(&[&route, &method], &spread);
                }
            }
        },
    },
    Metric {
        area: "requests",
        name: "millpond_http_panics_total",
        kind: Counter,
        labels: &[],
        help: "Requests that made the daemon panic",
        series: |now, series| series.value(now.door.figures.panics.load(Relaxed)),
    },
    Metric {
        area: "requests",
        name: "millpond_http_waits",
        kind: Gauge,
        labels: &[],
        help: "Requests that wait for a task to end",
        series: |now, series| series.value(now.waiting.0),
    },
    Metric {
        area: "requests",
        name: "millpond_http_waits_max",
        kind: Gauge,
        labels: &[],
        help: "How many may",
        series: |now, series| series.value(now.waiting.1),
    },
    Metric {
        area: "requests",
        name: "millpond_sse_streams",
        kind: Gauge,
        labels: &[],
        help: "Clients that follow events",
        series: |now, series| series.value(now.streams.0),
    },
    Metric {
        area: "requests",
        name: "millpond_sse_streams_max",
        kind: Gauge,
        labels: &[],
        help: "How many may",
        series: |now, series| series.value(now.streams.1),
    },
    Metric {
        area: "requests",
        name: "millpond_http_body_bytes",
        kind: Gauge,
        labels: &[],
        help: "Memory that bodies take while they are read",
        series: |now, series| series.value(now.bodies.0),
    },
    Metric {
        area: "requests",
        name: "millpond_http_body_bytes_max",
        kind: Gauge,
        labels: &[],
        help: "How much they may take together",
        series: |now, series| series.value(now.bodies.1),
    },
    Metric {
        area: "requests",
        name: "millpond_http_workers",
        kind: Gauge,
        labels: &[],
        help: "Threads that serve connections",
        series: |now, series| series.value(now.door.inboxes.len()),
    },
    Metric {
        area: "shared memory",
        name: "millpond_memory_clients",
        kind: Gauge,
        labels: &[],
        help: "Programs that are attached by shared memory; only if that door is open",
        series: |now, series| series.known(now.tasks.memory_door.map(|door| door.clients)),
    },
    Metric {
        area: "shared memory",
        name: "millpond_memory_attached_total",
        kind: Counter,
        labels: &[],
        help: "Programs that attached",
        series: |now, series| series.known(now.tasks.memory_door.map(|door| door.attached)),
    },
    Metric {
        area: "shared memory",
        name: "millpond_memory_refused_total",
        kind: Counter,
        labels: &[],
        help: "Programs that were sent away",
        series: |now, series| series.known(now.tasks.memory_door.map(|door| door.refused)),
    },
    Metric {
        area: "shared memory",
        name: "millpond_memory_tasks",
        kind: Gauge,
        labels: &[],
        help: "Tasks of attached programs that are under way, quick ones left out",
        series: |now, series| series.known(now.tasks.memory_door.map(|door| door.under_way)),
    },
    Metric {
        area: "shared memory",
        name: "millpond_memory_answers_waiting",
        kind: Gauge,
        labels: &[],
        help: "Answers that wait for an attached program to read",
        series: |now, series| series.known(now.tasks.memory_door.map(|door| door.answers_waiting)),
    },
    Metric {
        area: "traces",
        name: "millpond_spans_exported_total",
        kind: Counter,
        labels: &[],
        help: "Spans of tasks that a collector took; only if tasks are traced",
        series: |now, series| series.known(now.traces.map(|traces| traces.exported)),
    },
    Metric {
        area: "traces",
        name: "millpond_spans_dropped_total",
        kind: Counter,
        labels: &["reason"],
        help: "Spans that were lost, because too many waited or the collector did not take them",
        series: |now, series| {
            if let Some(traces) = now.traces {
                series.labelled(&[&"queue-full"], traces.dropped);
                series.labelled(&[&"not-delivered"], traces.failed);
            }
        },
    },
    Metric {
        area: "traces",
        name: "millpond_spans_queued",
        kind: Gauge,
        labels: &[],
        help: "Tasks whose spans wait to be sent",
        series: |now, series| series.known(now.traces.map(|traces| traces.queued)),
    },
    Metric {
        area: "traces",
        name: "millpond_spans_queued_max",
        kind: Gauge,
        labels: &[],
        help: "How many may wait",
        series: |now, series| series.known(now.traces.map(|traces| traces.queue_max)),
    },
    Metric {
        area: "process",
        name: "millpond_build_info",
        kind: Gauge,
        labels: &["version"],
        help: "1, with what was built",
        series: |_, series| series.labelled(&[&env!("CARGO_PKG_VERSION")], 1),
    },
    Metric {
        area: "process",
        name: "process_cpu_seconds_total",
        kind: Counter,
        labels: &[],
        help: "Time that processors spent on this process",
        series: |now, series| series.known(now.process.cpu_seconds),
    },
    Metric {
        area: "process",
        name: "process_resident_memory_bytes",
        kind: Gauge,
        labels: &[],
        help: "Memory that it has",
        series: |now, series| series.known(now.process.resident_bytes),
    },
    Metric {
        area: "process",
        name: "process_virtual_memory_bytes",
        kind: Gauge,
        labels: &[],
        help: "Addresses that it has",
        series: |now, series| series.known(now.process.virtual_bytes),
    },
    Metric {
        area: "process",
        name: "process_threads",
        kind: Gauge,
        labels: &[],
        help: "Threads that it has",
        series: |now, series| series.known(now.process.threads),
    },
    Metric {
        area: "process",
        name: "process_open_fds",
        kind: Gauge,
        labels: &[],
        help: "Files and sockets that it has open",
        series: |now, series| series.known(now.process.files_open),
    },
    Metric {
        area: "process",
        name: "process_max_fds",
        kind: Gauge,
        labels: &[],
        help: "How many it may have open",
        series: |now, series| series.known(now.process.files_max),
    },
    Metric {
        area: "process",
        name: "process_start_time_seconds",
        kind: Gauge,
        labels: &[],
        help: "When it began, in Unix time",
        series: |now, series| series.known(now.process.start_seconds),
    },
];
