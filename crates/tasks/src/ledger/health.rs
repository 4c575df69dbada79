//! How the journal is: whether it takes what comes, and what it has seen.
//!
//! A full disk passes, a failed write does not. Both are told to whoever asks, and each change once to the log.

use super::Ledger;
use crate::error::TaskFailure;
use crate::log::Log;
use crate::service::ServiceHandle;
use millpond_journal::{AppendError, Recovery};
use serde::Serialize;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::time::Duration;

#[derive(Debug, Default)]
pub(super) struct Health {
    /// The disk had no room the last time somebody asked for some.
    is_full: AtomicBool,
    /// It takes nothing any more.
    is_failed: AtomicBool,
    /// Records that nobody waited for and that found no room.
    pub(super) unwritten: AtomicU64,
    /// Tasks that came back when the service started.
    restored: AtomicUsize,
    /// Of these, how many could not go on.
    pub(super) buried: AtomicUsize,
    pub(super) snapshots: AtomicU64,
    pub(super) snapshots_failed: AtomicU64,
    /// How long it took to read the journal and to bring everything back.
    replay_ms: AtomicU64,
    /// What was found then.
    recovery: String,
    pub(super) log: OnceLock<Log>,
}

impl Health {
    pub(super) fn new(found: &Recovery) -> Self {
        let records = found.snapshot_records + found.log_records;
        let recovery = match found {
            Recovery { created: true, .. } => "there was none, and now there is".to_owned(),
            Recovery { clean: true, .. } => format!("{records} records, closed in good order"),
            Recovery { cut_bytes, .. } => {
                format!("{records} records, not closed; {cut_bytes} bytes of a torn tail were cut")
            }
        };
        Self { recovery, ..Self::default() }
    }

    /// Everything is back.
    pub(super) fn came_back(&self, tasks: usize, took: Duration) {
        self.restored.store(tasks, Relaxed);
        self.replay_ms.store(u64::try_from(took.as_millis()).unwrap_or(u64::MAX), Relaxed);
    }

    /// Remembers what went wrong, and says it once.
    pub(super) fn note(&self, error: &AppendError) {
        let is_new = match error {
            AppendError::Refused(_) | AppendError::Spill(_) => !self.is_full.swap(true, AcqRel),
            AppendError::Poisoned(_) => !self.is_failed.swap(true, AcqRel),
            _ => false,
        };
        if let Some(log) = self.log.get().filter(|_| is_new) {
            log.error(&format!("journal: {error}"));
        }
    }

    /// Something was written, so there is room again.
    pub(super) fn has_room(&self) {
        let was_full = self.is_full.load(Relaxed) && self.is_full.swap(false, AcqRel);
        if let Some(log) = self.log.get().filter(|_| was_full) {
            log.info("journal: there is room on the disk again, and tasks are accepted");
        }
    }
}

/// The journal at one moment.
#[derive(Clone, Debug, Serialize)]
pub struct JournalHealth {
    /// Where it lies.
    pub directory: String,
    /// When something counts as kept: `group`, `interval:<ms>` or `off`.
    pub sync: String,
    /// `ok`, `full` or `failed`.
    pub state: &'static str,
    /// Why it takes nothing any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Records written since the start.
    pub records: u64,
    /// Bytes written since the start.
    pub bytes: u64,
    /// Records refused because there was no room.
    pub records_refused: u64,
    /// Attempts and checkpoints that could not be written down.
    pub records_unwritten: u64,
    /// Batches written.
    pub batches: u64,
    /// The mean number of records in a batch.
    pub batch_records_mean: f64,
    /// Syncs of the log.
    pub syncs: u64,
    /// How long one took, on the average.
    pub sync_mean_us: u64,
    /// The longest of them.
    pub sync_max_us: u64,
    /// Records that wait for the disk now.
    pub waiting_records: usize,
    /// Files of the log.
    pub segments: u64,
    /// Bytes of records since the last snapshot.
    pub log_bytes: u64,
    /// Bytes of the last snapshot.
    pub snapshot_bytes: u64,
    /// Snapshots written since the start.
    pub snapshots: u64,
    /// Snapshots that failed; the log is unharmed, and longer.
    pub snapshots_failed: u64,
    /// Bytes of all files.
    pub disk_bytes: u64,
    /// Tasks that came back when the service started.
    pub restored: usize,
    /// Of these, those that could not go on and are dead letters now.
    pub buried: usize,
    /// How long it took then to read the journal and to bring them back.
    pub replay_ms: u64,
    /// What was found then.
    pub recovery: String,
}

impl Ledger {
    fn health(&self) -> JournalHealth {
        let health = &self.health;
        let stats = self.journal().as_ref().map(|journal| journal.stats()).unwrap_or_default();
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let state = if stats.poisoned.is_some() || health.is_failed.load(Acquire) {
            "failed"
        } else if health.is_full.load(Acquire) {
            "full"
        } else {
            "ok"
        };
        JournalHealth {
            directory: self.settings.directory.display().to_string(),
            sync: match self.settings.sync {
                crate::config::JournalSync::Group => "group".to_owned(),
                crate::config::JournalSync::Interval(time) => format!("interval:{}", time.as_millis()),
                crate::config::JournalSync::Off => "off".to_owned(),
            },
            state,
            reason: stats.poisoned.as_ref().map(ToString::to_string),
            records: stats.records,
            bytes: stats.bytes,
            records_refused: stats.records_refused,
            records_unwritten: health.unwritten.load(Relaxed),
            batches: stats.batches,
            batch_records_mean: stats.batch_records_mean(),
            syncs: stats.syncs,
            sync_mean_us: micros(stats.sync_time_mean()),
            sync_max_us: micros(stats.sync_time_max),
            waiting_records: stats.waiting_records,
            segments: stats.segments,
            log_bytes: stats.log_bytes,
            snapshot_bytes: stats.snapshot_bytes,
            snapshots: health.snapshots.load(Relaxed),
            snapshots_failed: health.snapshots_failed.load(Relaxed),
            disk_bytes: stats.disk_bytes,
            restored: health.restored.load(Relaxed),
            buried: health.buried.load(Relaxed),
            replay_ms: health.replay_ms.load(Relaxed),
            recovery: health.recovery.clone(),
        }
    }

    /// Where lines about the journal go from now on.
    pub(crate) fn set_log(&self, log: &Log) {
        let _ = self.health.log.set(log.clone());
    }
}

impl ServiceHandle {
    /// How the journal is, if there is one.
    pub fn journal_health(&self) -> Option<JournalHealth> {
        self.shared.ledger.as_ref().map(Ledger::health)
    }

    /// Why nothing is accepted, if the journal takes nothing any more.
    pub fn journal_failure(&self) -> Option<TaskFailure> {
        let ledger = self.shared.ledger.as_ref()?;
        let reason = ledger.journal().as_ref()?.poisoned()?;
        Some(ledger.refusal(&AppendError::Poisoned(reason)))
    }
}
