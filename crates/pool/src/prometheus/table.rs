//! The table of all metrics that a pool shows to Prometheus, from the whole to its parts.
//!
//! Whoever adds a row adds it to `docs/metrics.md` too; the test in `prometheus.rs` prints what it should be.

use super::{Kind::Counter, Kind::Gauge, Kind::Histogram, Metric, seconds};
use crate::options::Priority;

/// The lanes by name, in the order of [`Metrics::lanes`](crate::Metrics::lanes).
const LANES: [(&str, Priority); 3] =
    [("high", Priority::High), ("normal", Priority::Normal), ("low", Priority::Low)];

pub(super) const TABLE: &[Metric] = &[
    Metric {
        name: "millpond_uptime_seconds",
        kind: Gauge,
        labels: &[],
        help: "How long ago the pool began",
        series: |metrics, series| series.value(seconds(metrics.uptime)),
    },
    Metric {
        name: "millpond_tasks_ended_total",
        kind: Counter,
        labels: &["ending"],
        help: "Tasks that have ended, by how they did",
        series: |metrics, series| {
            series.labelled(&[&"completed"], metrics.completed);
            series.labelled(&[&"panicked"], metrics.panicked);
            series.labelled(&[&"cancelled"], metrics.cancelled);
            series.labelled(&[&"timed_out"], metrics.timed_out);
            series.labelled(&[&"expired"], metrics.expired);
            series.labelled(&[&"dropped"], metrics.dropped);
        },
    },
    Metric {
        name: "millpond_tasks_waiting",
        kind: Gauge,
        labels: &[],
        help: "Tasks that wait, in all queues together",
        series: |metrics, series| series.value(metrics.tasks_waiting),
    },
    Metric {
        name: "millpond_futures_live",
        kind: Gauge,
        labels: &[],
        help: "Async tasks that live, whether they wait or run",
        series: |metrics, series| series.value(metrics.futures_live),
    },
    Metric {
        name: "millpond_deadlines_pending",
        kind: Gauge,
        labels: &[],
        help: "Live tasks that have a deadline",
        series: |metrics, series| series.value(metrics.deadlines),
    },
    Metric {
        name: "millpond_kept_bytes",
        kind: Gauge,
        labels: &[],
        help: "Memory of ended tasks that waits for the next ones, of all pools of the process",
        series: |metrics, series| series.value(metrics.kept_bytes),
    },
    Metric {
        name: "millpond_task_wait_seconds",
        kind: Histogram,
        labels: &[],
        help: "How long timed tasks waited, from submit to start",
        series: |metrics, series| series.histogram(&metrics.wait),
    },
    Metric {
        name: "millpond_task_run_seconds",
        kind: Histogram,
        labels: &[],
        help: "How long timed tasks ran, from start to end",
        series: |metrics, series| series.histogram(&metrics.run),
    },
    Metric {
        name: "millpond_tasks_refused_total",
        kind: Counter,
        labels: &["reason"],
        help: "Tasks that went back to their submitter because the queue was full, at once or after a wait",
        series: |metrics, series| {
            series.labelled(&[&"full"], metrics.pressure.refused);
            series.labelled(&[&"timed_out"], metrics.pressure.timed_out);
        },
    },
    Metric {
        name: "millpond_tasks_dropped_total",
        kind: Counter,
        labels: &["which"],
        help: "Tasks that were dropped because the queue was full, new ones or waiting ones",
        series: |metrics, series| {
            series.labelled(&[&"newest"], metrics.pressure.dropped_newest);
            series.labelled(&[&"oldest"], metrics.pressure.dropped_oldest);
        },
    },
    Metric {
        name: "millpond_tasks_run_by_caller_total",
        kind: Counter,
        labels: &[],
        help: "Tasks that their submitter ran because the queue was full and the policy says so",
        series: |metrics, series| series.value(metrics.pressure.ran_by_caller),
    },
    Metric {
        name: "millpond_queue_enqueued_total",
        kind: Counter,
        labels: &[],
        help: "Entries that the shared queue and the workers' inboxes took in",
        series: |metrics, series| series.value(metrics.queue.enqueued),
    },
    Metric {
        name: "millpond_queue_dequeued_total",
        kind: Counter,
        labels: &[],
        help: "Entries that were taken out of the shared queue and the workers' inboxes",
        series: |metrics, series| series.value(metrics.queue.dequeued),
    },
    Metric {
        name: "millpond_lane_tasks_waiting",
        kind: Gauge,
        labels: &["lane"],
        help: "Entries that wait in a lane of the shared queue",
        series: |metrics, series| {
            for (name, priority) in LANES {
                series.labelled(&[&name], metrics.lane(priority).len);
            }
        },
    },
    Metric {
        name: "millpond_lane_tasks_waiting_peak",
        kind: Gauge,
        labels: &["lane"],
        help: "The most entries that were seen to wait in a lane at once",
        series: |metrics, series| {
            for (name, priority) in LANES {
                series.labelled(&[&name], metrics.lane(priority).len_max);
            }
        },
    },
    Metric {
        name: "millpond_lane_capacity",
        kind: Gauge,
        labels: &["lane"],
        help: "Entries that may wait in a lane",
        series: |metrics, series| {
            for (name, priority) in LANES {
                series.labelled(&[&name], metrics.lane(priority).capacity);
            }
        },
    },
    Metric {
        name: "millpond_lane_enqueued_total",
        kind: Counter,
        labels: &["lane"],
        help: "Entries that a lane took in",
        series: |metrics, series| {
            for (name, priority) in LANES {
                series.labelled(&[&name], metrics.lane(priority).enqueued);
            }
        },
    },
    Metric {
        name: "millpond_lane_dequeued_total",
        kind: Counter,
        labels: &["lane"],
        help: "Entries that were taken out of a lane",
        series: |metrics, series| {
            for (name, priority) in LANES {
                series.labelled(&[&name], metrics.lane(priority).dequeued);
            }
        },
    },
    Metric {
        name: "millpond_workers_wanted",
        kind: Gauge,
        labels: &[],
        help: "Workers that there should be",
        series: |metrics, series| series.value(metrics.workers_wanted),
    },
    Metric {
        name: "millpond_workers_running",
        kind: Gauge,
        labels: &[],
        help: "Workers that run, search or sleep, without those that stand still",
        series: |metrics, series| series.value(metrics.workers_running),
    },
    Metric {
        name: "millpond_workers_busy",
        kind: Gauge,
        labels: &[],
        help: "Workers that run a task, or wait inside of one",
        series: |metrics, series| series.value(metrics.workers_busy),
    },
    Metric {
        name: "millpond_workers_searching",
        kind: Gauge,
        labels: &[],
        help: "Workers that look for work",
        series: |metrics, series| series.value(metrics.workers_searching),
    },
    Metric {
        name: "millpond_workers_asleep",
        kind: Gauge,
        labels: &[],
        help: "Workers that sleep",
        series: |metrics, series| series.value(metrics.workers_asleep),
    },
    Metric {
        name: "millpond_workers_standing_still",
        kind: Gauge,
        labels: &[],
        help: "Workers that wait for something other than work",
        series: |metrics, series| series.value(metrics.workers_standing_still),
    },
    Metric {
        name: "millpond_workers_min",
        kind: Gauge,
        labels: &[],
        help: "Workers that there are to be at least",
        series: |metrics, series| series.value(metrics.scaling.workers_min),
    },
    Metric {
        name: "millpond_workers_max",
        kind: Gauge,
        labels: &[],
        help: "Workers that there may be at most, with those that stand in for others",
        series: |metrics, series| series.value(metrics.scaling.workers_max),
    },
    Metric {
        name: "millpond_workers_unrelieved_total",
        kind: Counter,
        labels: &[],
        help: "Times a worker stood still and there was no room for another to stand in",
        series: |metrics, series| series.value(metrics.workers_unrelieved),
    },
    Metric {
        name: "millpond_scalings_total",
        kind: Counter,
        labels: &["direction"],
        help: "Times the pool changed the number of its workers",
        series: |metrics, series| {
            series.labelled(&[&"up"], metrics.scaling.ups);
            series.labelled(&[&"down"], metrics.scaling.downs);
        },
    },
    Metric {
        name: "millpond_scalings_failed_total",
        kind: Counter,
        labels: &[],
        help: "Times the pool wanted more workers and the system would not start a thread",
        series: |metrics, series| series.value(metrics.scaling.failed),
    },
    Metric {
        name: "millpond_hooks_panicked_total",
        kind: Counter,
        labels: &[],
        help: "Times a start or stop hook panicked",
        series: |metrics, series| series.value(metrics.hooks_panicked),
    },
    Metric {
        name: "millpond_robberies_total",
        kind: Counter,
        labels: &[],
        help: "Times a worker without work took tasks from another",
        series: |metrics, series| series.value(metrics.stealing.robberies),
    },
    Metric {
        name: "millpond_robberies_in_vain_total",
        kind: Counter,
        labels: &[],
        help: "Times a worker came for tasks and others had been faster",
        series: |metrics, series| series.value(metrics.stealing.in_vain),
    },
    Metric {
        name: "millpond_tasks_stolen_total",
        kind: Counter,
        labels: &[],
        help: "Tasks that workers took from each other",
        series: |metrics, series| series.value(metrics.stealing.tasks),
    },
    Metric {
        name: "millpond_tasks_keyed_total",
        kind: Counter,
        labels: &[],
        help: "Tasks with an affinity key",
        series: |metrics, series| series.value(metrics.affinity.keyed),
    },
    Metric {
        name: "millpond_affinity_hits_total",
        kind: Counter,
        labels: &[],
        help: "Tasks that found room with the worker of their key",
        series: |metrics, series| series.value(metrics.affinity.hits),
    },
    Metric {
        name: "millpond_affinity_moved_total",
        kind: Counter,
        labels: &[],
        help: "Tasks that another worker than that of their key took over",
        series: |metrics, series| series.value(metrics.affinity.moved),
    },
    Metric {
        name: "millpond_worker_busy",
        kind: Gauge,
        labels: &["worker"],
        help: "1 while the worker runs a task",
        series: |metrics, series| {
            for worker in &metrics.workers {
                series.labelled(&[&worker.id], worker.active);
            }
        },
    },
    Metric {
        name: "millpond_worker_tasks_waiting",
        kind: Gauge,
        labels: &["worker"],
        help: "Tasks that wait at the worker",
        series: |metrics, series| {
            for worker in &metrics.workers {
                series.labelled(&[&worker.id], worker.tasks_waiting);
            }
        },
    },
    Metric {
        name: "millpond_worker_tasks_ended_total",
        kind: Counter,
        labels: &["worker", "ending"],
        help: "Tasks that ran at the worker, by how they ended",
        series: |metrics, series| {
            for worker in &metrics.workers {
                series.labelled(&[&worker.id, &"completed"], worker.completed);
                series.labelled(&[&worker.id, &"panicked"], worker.panicked);
            }
        },
    },
    Metric {
        name: "millpond_worker_run_seconds_total",
        kind: Counter,
        labels: &["worker"],
        help: "How long tasks have run at the worker, estimated from the timed ones",
        series: |metrics, series| {
            for worker in &metrics.workers {
                series.labelled(&[&worker.id], seconds(worker.run_total));
            }
        },
    },
    Metric {
        name: "millpond_worker_tasks_stolen_total",
        kind: Counter,
        labels: &["worker"],
        help: "Tasks that the worker took from others",
        series: |metrics, series| {
            for worker in &metrics.workers {
                series.labelled(&[&worker.id], worker.stolen);
            }
        },
    },
    Metric {
        name: "millpond_worker_tasks_run_in_place_total",
        kind: Counter,
        labels: &["worker"],
        help: "Tasks that a task of the worker ran because it submitted them to a full pool",
        series: |metrics, series| {
            for worker in &metrics.workers {
                series.labelled(&[&worker.id], worker.ran_in_place);
            }
        },
    },
    Metric {
        name: "millpond_worker_sleeps_total",
        kind: Counter,
        labels: &["worker"],
        help: "Times the worker went to sleep",
        series: |metrics, series| {
            for worker in &metrics.workers {
                series.labelled(&[&worker.id], worker.sleeps);
            }
        },
    },
];
