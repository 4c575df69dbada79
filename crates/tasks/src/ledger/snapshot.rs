//! How the log is kept short: everything that is alive is written down anew, while tasks go on.
//!
//! Each task is looked at under its own lock, one after the other, so a snapshot is no picture of one moment. It
//! need not be: records that came after its beginning are applied to it again, and change nothing where it knew
//! more (`replay.rs`). One thing must not be: a task whose last record is on its way to the disk must not be
//! written down as it was before that, since that record may be in a file which the snapshot makes superfluous. So
//! such a task is waited for.

use super::records::{self, Entry, Standing};

use crate::service::Shared;
use crate::task::{Stage, State, Task};
use millpond_journal::{Record, SnapshotWriter};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

/// How long a task whose record is on its way to the disk is waited for.
const SYNC_WAIT: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_micros(200);

impl Shared {
    /// Writes a snapshot in a thread of its own, if the log has grown enough and none is being written.
    pub(crate) fn snapshot_if_wanted(self: &Arc<Self>) {
        let Some(ledger) = &self.ledger else { return };
        let is_wanted = ledger.journal().as_ref().is_some_and(|journal| journal.wants_snapshot());
        if !is_wanted {
            return;
        }
        let shared = Arc::clone(self);
        let work = move || shared.snapshot();
        // Without a thread there is no snapshot, and the next second tries again.
        let _ = thread::Builder::new().name("millpond-snapshot".to_owned()).spawn(work);
    }

    fn snapshot(self: &Arc<Self>) {
        let Some(ledger) = &self.ledger else { return };
        let began = match ledger.journal().as_ref().map(|journal| journal.begin_snapshot()) {
            Some(Ok(snapshot)) => snapshot,
            // One is being written, or the journal is closed.
            Some(Err(_)) | None => return,
        };
        let written = self.write_all(began);
        let log = ledger.health.log.get();
        match written {
            Ok(report) => {
                ledger.health.snapshots.fetch_add(1, Relaxed);
                if let Some(log) = log {
                    log.debug(&format!("journal: a snapshot was written: {report:?}"));
                }
            }
            Err(error) => {
                ledger.health.snapshots_failed.fetch_add(1, Relaxed);
                if let Some(log) = log {
                    log.warn(&format!("journal: {error}"));
                }
            }
        }
    }

    fn write_all(&self, mut snapshot: SnapshotWriter) -> Result<millpond_journal::SnapshotReport, String> {
        for task in self.list.all().into_iter().filter(|task| task.is_durable) {
            for entry in entries_of(&task)? {
                put(&mut snapshot, &entry)?;
            }
        }
        for letter in self.dead.all() {
            put(&mut snapshot, &records::dead(&letter))?;
        }
        for key in self.keys.all(self.now_ms()) {
            put(&mut snapshot, &records::key(&key))?;
        }
        for (name, at_ms) in self.schedules.last_times() {
            put(&mut snapshot, &records::fired(name, at_ms))?;
        }
        let numbers = [self.list.last_assigned(), self.list.last_sequence(), self.dead.last_number()];
        put(&mut snapshot, &records::counters(numbers))?;
        snapshot.finish().map_err(|error| error.to_string())
    }
}

fn put(snapshot: &mut SnapshotWriter, entry: &Entry) -> Result<(), String> {
    snapshot.put(Record::new(entry.kind, entry.key, &entry.bytes)).map_err(|error| error.to_string())
}

/// A task as it stands now.
fn entries_of(task: &Arc<Task>) -> Result<Vec<Entry>, String> {
    let until = Instant::now() + SYNC_WAIT;
    let state = loop {
        let state = task.lock();
        if state.unsynced == 0 {
            break state;
        }
        drop(state);
        if Instant::now() > until {
            return Err(format!("the snapshot was given up: task {} waits for the disk", task.id));
        }
        thread::sleep(LOOK_EVERY);
    };
    if let Some(outcome) = task.outcome.get() {
        if state.is_lost {
            return Ok(Vec::new());
        }
        let now_ms = task.shared.now_ms();
        let ended = records::ended(task.sequence, outcome, true, state.ended_at_ms.unwrap_or(now_ms));
        return Ok(vec![records::accepted(task, None, None), ended]);
    }
    let mut entries = vec![records::accepted(task, None, None), records::standing(task, &standing(&state))];
    entries.extend(state.checkpoint.as_ref().map(|value| records::checkpoint(task, value)));
    Ok(entries)
}

fn standing(state: &State) -> Standing {
    let waits = matches!(state.stage, Stage::Delayed | Stage::Retrying);
    Standing {
        attempt: state.attempt,
        crashes: state.crashes,
        is_running: state.stage == Stage::Running,
        is_retrying: state.stage == Stage::Retrying,
        due_ms: state.due_ms.filter(|_| waits),
    }
}
