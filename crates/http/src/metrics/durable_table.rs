//! The metrics of what outlives a task: the journal, dead letters and schedules.
//!
//! A daemon without them has no series of theirs, so that an alert on a journal that fails does not sleep for ever
//! beside a daemon that has none.
//!
//! Not here: all other metrics (`table.rs`).

use super::text::Kind::{Counter, Gauge};
use super::text::Metric;

pub(super) const DURABLE_TABLE: &[Metric] = &[
    Metric {
        area: "journal",
        name: "millpond_journal_state",
        kind: Gauge,
        labels: &["state"],
        help: "1 for the state the journal is in: ok, full or failed",
        series: |now, series| {
            if let Some(journal) = &now.tasks.journal {
                for state in ["ok", "full", "failed"] {
                    series.labelled(&[&state], u8::from(journal.state == state));
                }
            }
        },
    },
    Metric {
        area: "journal",
        name: "millpond_journal_records_total",
        kind: Counter,
        labels: &[],
        help: "Records written",
        series: |now, series| now.tasks.journal.iter().for_each(|journal| series.value(journal.records)),
    },
    Metric {
        area: "journal",
        name: "millpond_journal_written_bytes_total",
        kind: Counter,
        labels: &[],
        help: "Bytes written to the log",
        series: |now, series| now.tasks.journal.iter().for_each(|journal| series.value(journal.bytes)),
    },
    Metric {
        area: "journal",
        name: "millpond_journal_records_refused_total",
        kind: Counter,
        labels: &[],
        help: "Records refused because the disk had no room",
        series: |now, series| {
            now.tasks.journal.iter().for_each(|journal| series.value(journal.records_refused))
        },
    },
    Metric {
        area: "journal",
        name: "millpond_journal_syncs_total",
        kind: Counter,
        labels: &[],
        help: "Syncs of the log; records by syncs is how many share one",
        series: |now, series| now.tasks.journal.iter().for_each(|journal| series.value(journal.syncs)),
    },
    Metric {
        area: "journal",
        name: "millpond_journal_sync_seconds_max",
        kind: Gauge,
        labels: &[],
        help: "The longest sync since the start",
        series: |now, series| {
            now.tasks.journal.iter().for_each(|journal| series.value(journal.sync_max_us as f64 / 1e6));
        },
    },
    Metric {
        area: "journal",
        name: "millpond_journal_disk_bytes",
        kind: Gauge,
        labels: &[],
        help: "Bytes of all files of the journal",
        series: |now, series| now.tasks.journal.iter().for_each(|journal| series.value(journal.disk_bytes)),
    },
    Metric {
        area: "journal",
        name: "millpond_journal_snapshots_total",
        kind: Counter,
        labels: &["status"],
        help: "Snapshots, by whether they were written",
        series: |now, series| {
            if let Some(journal) = &now.tasks.journal {
                series.labelled(&[&"written"], journal.snapshots);
                series.labelled(&[&"failed"], journal.snapshots_failed);
            }
        },
    },
    Metric {
        area: "journal",
        name: "millpond_journal_restored_tasks",
        kind: Gauge,
        labels: &[],
        help: "Tasks that came back when the daemon started",
        series: |now, series| now.tasks.journal.iter().for_each(|journal| series.value(journal.restored)),
    },
    Metric {
        area: "tasks",
        name: "millpond_tasks_backlog",
        kind: Gauge,
        labels: &[],
        help: "Tasks that wait for a worker and found no room in the queue",
        series: |now, series| series.value(now.tasks.backlog),
    },
    Metric {
        area: "dead letters",
        name: "millpond_dead_letters_kept",
        kind: Gauge,
        labels: &[],
        help: "Dead letters that are kept",
        series: |now, series| now.tasks.dead_letters.iter().for_each(|dead| series.value(dead.kept)),
    },
    Metric {
        area: "dead letters",
        name: "millpond_dead_letters_total",
        kind: Counter,
        labels: &["event"],
        help: "What became of dead letters: died, retried, purged, dropped for room, gone by age",
        series: |now, series| {
            if let Some(dead) = &now.tasks.dead_letters {
                let events = [
                    ("died", dead.died),
                    ("retried", dead.retried),
                    ("purged", dead.purged),
                    ("dropped", dead.dropped),
                    ("aged", dead.aged),
                ];
                events.iter().for_each(|(event, count)| series.labelled(&[event], count));
            }
        },
    },
    Metric {
        area: "schedules",
        name: "millpond_schedule_times_total",
        kind: Counter,
        labels: &["schedule", "status"],
        help: "Times of a schedule, by whether they became a task, were left out or refused",
        series: |now, series| {
            for (name, schedule) in &now.tasks.schedules {
                series.labelled(&[name, &"fired"], schedule.fired);
                series.labelled(&[name, &"skipped"], schedule.skipped);
                series.labelled(&[name, &"refused"], schedule.refused);
            }
        },
    },
];
