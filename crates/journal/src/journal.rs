//! The journal as its owner has it, and what its threads share.
//!
//! Submitters and the writer meet under one lock, held for as long as it takes to copy a record. The disk is touched
//! outside of it: while the writer syncs one batch, the next is being filled.
//!
//! Not here: putting records in (`append.rs`), writing them (`writer.rs`), snapshots (`snapshot.rs`).

use crate::batch::Batch;
use crate::config::JournalConfig;
use crate::disk::{Disk, LockGuard, RealDisk};
use crate::error::{AppendError, OpenError, ReadError};
use crate::header::LogId;
use crate::open::{self, Recovery};
use crate::record::{Payload, Record, SpillRef};
use crate::spill::SpillTable;
use crate::stats::{Counters, JournalStats};
use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, JoinHandle, ThreadId};
use std::time::Instant;

/// An open journal. It may be used from any number of threads; dropping it closes it.
pub struct Journal {
    pub(crate) shared: Arc<Shared>,
    writer: Option<JoinHandle<()>>,
}

/// What the writer, the submitters and a snapshot have in common.
pub(crate) struct Shared {
    pub(crate) config: JournalConfig,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) log: LogId,
    /// What waits for the writer. Everybody's, for a moment.
    pub(crate) state: Mutex<State>,
    /// The writer waits here for something to do.
    pub(crate) work: Condvar,
    /// Submitters wait here for room in the batch.
    pub(crate) room: Condvar,
    /// Large payloads. Never taken while `state` is held, nor the other way round.
    pub(crate) spills: Mutex<SpillTable>,
    /// Written by the writer, once for each batch.
    pub(crate) counters: Mutex<Counters>,
    /// The writer's thread, once it runs: it must not wait for itself.
    pub(crate) writer: OnceLock<ThreadId>,
    /// Which files there are. Changed by the writer at a new segment, by a snapshot at its end.
    pub(crate) files: Mutex<Files>,
    /// Given back when the writer has ended and no snapshot is being written.
    pub(crate) _lock: Box<dyn LockGuard>,
}

/// Under the lock of `Shared::state`.
pub(crate) struct State {
    /// Gets what arrives.
    pub(crate) filling: Batch,
    /// Batches that were closed for a snapshot before the writer came for them; one at most, since there is one
    /// snapshot at a time.
    pub(crate) closed: VecDeque<Batch>,
    /// Of all that waits.
    pub(crate) waiting_bytes: usize,
    pub(crate) waiting_records: usize,
    /// Buffers to fill again.
    pub(crate) buffers: Vec<Vec<u8>>,
    pub(crate) writer_sleeps: bool,
    /// An append wakes a writer that sleeps only if the batch has so many; 0 unless it lets a batch fill.
    pub(crate) appends_wanted: usize,
    pub(crate) submitters_sleep: usize,
    pub(crate) closing: bool,
    pub(crate) snapshot_runs: bool,
    pub(crate) poison: Option<Arc<str>>,
}

impl State {
    /// Whether something is there that cannot wait for a batch to fill: a snapshot, a submitter who found no room, the
    /// end.
    pub(crate) fn is_pressing(&self) -> bool {
        !self.closed.is_empty() || self.submitters_sleep > 0 || self.closing || self.poison.is_some()
    }
}

/// The files of the log and of its snapshot.
#[derive(Debug, Default)]
pub(crate) struct Files {
    /// Bytes of each segment, by its number.
    pub(crate) segments: BTreeMap<u64, u64>,
    pub(crate) snapshot_base: Option<u64>,
    pub(crate) snapshot_bytes: u64,
    pub(crate) snapshot_records: u64,
    pub(crate) snapshot_at: Option<Instant>,
    /// Bytes of records since the snapshot's cut, with their large payloads.
    pub(crate) log_bytes: u64,
}

pub(crate) fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic under one of these locks is our own mistake; what they guard is changed in single steps.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.config.directory.join(name)
    }

    /// Whether this is the writer's own thread, as in a callback.
    pub(crate) fn is_writer(&self) -> bool {
        self.writer.get() == Some(&thread::current().id())
    }

    /// From now on nothing is taken. The first reason stays.
    pub(crate) fn poison(&self, reason: &Arc<str>) {
        let mut state = held(&self.state);
        state.poison.get_or_insert_with(|| Arc::clone(reason));
        drop(state);
        self.work.notify_one();
        self.room.notify_all();
    }

    pub(crate) fn poisoned(&self) -> Option<Arc<str>> {
        held(&self.state).poison.clone()
    }

    /// A failed sync of the directory: nobody knows which names are there after a crash.
    pub(crate) fn sync_directory(&self) -> Result<(), Arc<str>> {
        self.disk.sync_directory(&self.config.directory).map_err(|error| {
            let path = self.config.directory.display();
            let reason: Arc<str> = format!("{path}: the directory was not synced: {error}").into();
            self.poison(&reason);
            reason
        })
    }
}

impl Journal {
    /// Opens the journal in a directory of this machine's disk, or begins one. Hands every record that is there to
    /// `replay`: those of the snapshot first, then those of the log in the order of their acceptance.
    pub fn open(
        config: JournalConfig,
        replay: impl FnMut(Record<'_>),
    ) -> Result<(Self, Recovery), OpenError> {
        Self::open_on(config, Arc::new(RealDisk), replay)
    }

    /// The same on another disk.
    pub fn open_on(
        config: JournalConfig,
        disk: Arc<dyn Disk>,
        mut replay: impl FnMut(Record<'_>),
    ) -> Result<(Self, Recovery), OpenError> {
        open::open(config, disk, &mut replay)
    }

    pub(crate) fn new(shared: Arc<Shared>, writer: JoinHandle<()>) -> Self {
        Self { shared, writer: Some(writer) }
    }

    /// Writes and syncs what waits, notes that all is well, and gives the directory back. Says why if it is not. The
    /// same happens on drop, where nobody can be told.
    pub fn close(mut self) -> Result<(), AppendError> {
        self.end();
        self.shared.poisoned().map_or(Ok(()), |reason| Err(AppendError::Poisoned(reason)))
    }

    fn end(&mut self) {
        let Some(writer) = self.writer.take() else { return };
        held(&self.shared.state).closing = true;
        self.shared.work.notify_one();
        self.shared.room.notify_all();
        // A callback may drop the last owner; the writer then ends when it has returned.
        if !self.shared.is_writer() {
            // A writer that panicked has said so already.
            let _ = writer.join();
        }
    }

    /// Why the journal takes nothing any more, if so.
    pub fn poisoned(&self) -> Option<Arc<str>> {
        self.shared.poisoned()
    }

    /// The bytes of a large payload.
    pub fn read_spilled(&self, spill: &SpillRef) -> Result<Vec<u8>, ReadError> {
        crate::spill::read(&self.shared, spill)
    }

    /// The bytes of any payload.
    pub fn read<'a>(&self, payload: Payload<'a>) -> Result<Cow<'a, [u8]>, ReadError> {
        match payload {
            Payload::Bytes(bytes) => Ok(Cow::Borrowed(bytes)),
            Payload::Spilled(spill) => self.read_spilled(&spill).map(Cow::Owned),
        }
    }

    /// The figures, at this moment.
    pub fn stats(&self) -> JournalStats {
        let shared = &self.shared;
        let mut stats = JournalStats::default();
        {
            let counters = held(&shared.counters);
            stats.records = counters.records;
            stats.bytes = counters.bytes;
            stats.records_refused = counters.records_refused;
            stats.batches = counters.batches;
            stats.batch_records_max = counters.batch_records_max;
            stats.batch_records_classes = counters.batch_records_classes;
            stats.syncs = counters.syncs;
            stats.sync_time = counters.sync_time;
            stats.sync_time_max = counters.sync_time_max;
        }
        {
            let state = held(&shared.state);
            stats.waiting_records = state.waiting_records;
            stats.waiting_bytes = state.waiting_bytes;
            stats.poisoned.clone_from(&state.poison);
        }
        {
            let spills = held(&shared.spills);
            stats.spill_files = spills.len() as u64;
            stats.spill_bytes = spills.bytes();
        }
        let files = held(&shared.files);
        stats.segments = files.segments.len() as u64;
        stats.segment_number = files.segments.keys().next_back().copied().unwrap_or(0);
        stats.log_bytes = files.log_bytes;
        stats.snapshot_bytes = files.snapshot_bytes;
        stats.snapshot_records = files.snapshot_records;
        stats.snapshot_age = files.snapshot_at.map(|at| at.elapsed());
        stats.disk_bytes = files.segments.values().sum::<u64>() + files.snapshot_bytes + stats.spill_bytes;
        stats
    }

    /// Whether the log has grown so much since the last snapshot that another would pay.
    pub fn wants_snapshot(&self) -> bool {
        let config = &self.shared.config;
        let files = held(&self.shared.files);
        let grown = files.snapshot_bytes as f64 * config.snapshot_ratio;
        files.log_bytes >= config.snapshot_bytes_min && files.log_bytes as f64 >= grown
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.end();
    }
}

impl fmt::Debug for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Journal").field("directory", &self.shared.config.directory).finish_non_exhaustive()
    }
}
