//! How the log is kept short: the owner writes down what is alive, and everything before that is removed.
//!
//! ```text
//! begin   the log goes on in a new segment; what came before the call is in older ones
//! put     the owner's live records, in a file without a name, while appends go on
//! finish  end mark, sync, name, sync of the directory; only then are older files removed
//! ```
//!
//! A crash at any point leaves the old state readable or the new one. The owner holds its own lock around `begin` and
//! whatever it needs to see its state as of that call; records of the log that the snapshot already knows are replayed
//! again otherwise.

use crate::batch::Batch;
use crate::disk::{DiskFile, write_all};
use crate::error::{AppendError, SnapshotError, remedy};
use crate::frame::{Form, Frame, push, stamp};
use crate::header::{FileKind, HEADER_BYTES, Header};
use crate::journal::{Journal, Shared, held};
use crate::names;
use crate::record::{Payload, Record, SpillRef};
use crate::spill;
use std::collections::HashSet;
use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Instant;

/// Gathered before it is written.
const BUFFER_BYTES: usize = 1 << 20;

/// Where the log goes on behind a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) number: u64,
    pub(crate) sequence: u64,
    /// Bytes of the log before it.
    pub(crate) log_bytes: u64,
}

/// Tells the snapshot where the log goes on, as soon as the writer has been there.
#[derive(Debug, Default)]
pub(crate) struct Cut {
    place: Mutex<Option<Result<Place, AppendError>>>,
    ended: Condvar,
}

impl Cut {
    pub(crate) fn end(&self, place: Result<Place, AppendError>) {
        *held(&self.place) = Some(place);
        self.ended.notify_all();
    }

    fn wait(&self) -> Result<Place, AppendError> {
        let mut place = held(&self.place);
        loop {
            if let Some(place) = &*place {
                return place.clone();
            }
            place = self.ended.wait(place).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// What came of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotReport {
    /// Records in it.
    pub records: u64,
    /// Its bytes.
    pub bytes: u64,
    /// Segments and older snapshots that were removed.
    pub files_removed: u64,
    /// Large payloads that were removed.
    pub spills_removed: u64,
}

/// Takes the live records. Dropping it unfinished leaves everything as it was.
pub struct SnapshotWriter {
    shared: Arc<Shared>,
    cut: Arc<Cut>,
    file: Box<dyn DiskFile>,
    buffer: Vec<u8>,
    position: u64,
    synced: u64,
    records: u64,
    spills: HashSet<u64>,
    /// Large payloads that this snapshot wrote itself.
    fresh: Vec<(usize, SpillRef)>,
    finished: bool,
}

impl Journal {
    /// Begins a snapshot. Quick: the log is told where to go on, and nothing is waited for.
    pub fn begin_snapshot(&self) -> Result<SnapshotWriter, SnapshotError> {
        let shared = &self.shared;
        let cut = Arc::<Cut>::default();
        {
            let mut state = held(&shared.state);
            if let Some(reason) = &state.poison {
                return Err(SnapshotError::Poisoned(Arc::clone(reason)));
            }
            if state.closing {
                return Err(SnapshotError::Closed);
            }
            if state.snapshot_runs {
                return Err(SnapshotError::Running);
            }
            state.snapshot_runs = true;
            let buffer = state.buffers.pop().unwrap_or_default();
            let mut closed = std::mem::replace(&mut state.filling, Batch::new(buffer));
            closed.cut = Some(Arc::clone(&cut));
            state.closed.push_back(closed);
            state.writer_sleeps = false;
        }
        shared.work.notify_one();
        let path = shared.path(names::SNAPSHOT_PART);
        match shared.disk.create(&path) {
            Ok(file) => Ok(SnapshotWriter::new(Arc::clone(shared), cut, file)),
            Err(error) => {
                held(&shared.state).snapshot_runs = false;
                Err(failed(&path.display().to_string(), &error))
            }
        }
    }
}

fn failed(what: &str, error: &io::Error) -> SnapshotError {
    SnapshotError::Failed(format!("{what}: {error}{}", remedy(error)).into())
}

fn not_appended(error: AppendError) -> SnapshotError {
    match error {
        AppendError::Poisoned(reason) => SnapshotError::Poisoned(reason),
        AppendError::Closed => SnapshotError::Closed,
        other => SnapshotError::Failed(other.to_string().into()),
    }
}

impl SnapshotWriter {
    fn new(shared: Arc<Shared>, cut: Arc<Cut>, file: Box<dyn DiskFile>) -> Self {
        let position = HEADER_BYTES as u64;
        let buffer = Vec::with_capacity(BUFFER_BYTES);
        let (spills, fresh) = (HashSet::new(), Vec::new());
        Self {
            shared,
            cut,
            file,
            buffer,
            position,
            synced: position,
            records: 0,
            spills,
            fresh,
            finished: false,
        }
    }

    /// Adds a live record.
    pub fn put(&mut self, record: Record<'_>) -> Result<(), SnapshotError> {
        let spilled = spill::write_large(&self.shared, &[record]).map_err(not_appended)?;
        let named = match (record.payload, spilled.first()) {
            (Payload::Spilled(spill), _) => Some(spill),
            (Payload::Bytes(_), fresh) => fresh.map(|(_, spill)| *spill),
        };
        self.fresh.extend(spilled);
        if let Some(spill) = named {
            if !held(&self.shared.spills).has(spill.id) {
                let name = names::spill(spill.id);
                return Err(SnapshotError::Failed(format!("{name}: named by a record and not there").into()));
            }
            self.spills.insert(spill.id);
            self.add(&record, Form::Spilled, &spill.encode());
        } else if let Payload::Bytes(bytes) = record.payload {
            self.add(&record, Form::Plain, bytes);
        }
        if self.buffer.len() >= BUFFER_BYTES { self.flush() } else { Ok(()) }
    }

    fn add(&mut self, record: &Record<'_>, form: Form, payload: &[u8]) {
        push(&mut self.buffer, &Frame::new(record.kind, record.key, form, payload), payload);
    }

    fn failed(&self, error: &io::Error) -> SnapshotError {
        failed(&self.shared.path(names::SNAPSHOT_PART).display().to_string(), error)
    }

    fn flush(&mut self) -> Result<(), SnapshotError> {
        let seed = crc32c::crc32c(&self.shared.log);
        self.records = stamp(&mut self.buffer, seed, 0, self.records);
        write_all(self.file.as_ref(), &self.buffer, self.position).map_err(|error| self.failed(&error))?;
        self.position += self.buffer.len() as u64;
        self.buffer.clear();
        if self.position - self.synced >= self.shared.config.snapshot_sync_bytes {
            self.file.sync_data().map_err(|error| self.failed(&error))?;
            self.synced = self.position;
        }
        Ok(())
    }

    /// Makes this the state that a start begins with, and removes what it replaces.
    pub fn finish(mut self) -> Result<SnapshotReport, SnapshotError> {
        self.flush()?;
        let records = self.records;
        let count = records.to_le_bytes();
        push(&mut self.buffer, &Frame::new(0, 0, Form::Footer, &count), &count);
        self.flush()?;
        let place = self.cut.wait().map_err(not_appended)?;
        let (number, sequence, log) = (place.number, place.sequence, self.shared.log);
        let bytes = self.position;
        let header = Header { kind: FileKind::Snapshot, mended: false, log, number, sequence, bytes };
        write_all(self.file.as_ref(), &header.encode(), 0)
            .and_then(|()| self.file.sync_data())
            .map_err(|error| self.failed(&error))?;
        let shared = Arc::clone(&self.shared);
        let (part, path) = (shared.path(names::SNAPSHOT_PART), shared.path(&names::snapshot(number)));
        shared.disk.rename(&part, &path).map_err(|error| self.failed(&error))?;
        shared.sync_directory().map_err(SnapshotError::Poisoned)?;
        self.finished = true;
        Ok(self.replace(place, records))
    }

    /// What the snapshot replaces is removed, now that it is there for good.
    fn replace(&self, place: Place, records: u64) -> SnapshotReport {
        let shared = &self.shared;
        let mut old = Vec::new();
        {
            let mut files = held(&shared.files);
            let kept = files.segments.split_off(&place.number);
            old.extend(files.segments.keys().map(|number| names::segment(*number)));
            files.segments = kept;
            old.extend(files.snapshot_base.map(names::snapshot));
            files.snapshot_base = Some(place.number);
            files.snapshot_bytes = self.position;
            files.snapshot_records = records;
            files.snapshot_at = Some(Instant::now());
            files.log_bytes -= place.log_bytes;
        }
        let unnamed = {
            let mut spills = held(&shared.spills);
            let fresh: Vec<u64> = self.fresh.iter().map(|(_, spill)| spill.id).collect();
            spills.named(&fresh, 0);
            spills.unnamed(&self.spills, place.number)
        };
        // What cannot be removed now is removed at the next start.
        let remove = |name: String| shared.disk.remove(&shared.path(&name)).is_ok();
        let files_removed = old.into_iter().filter(|name| remove(name.clone())).count() as u64;
        let spills_removed = unnamed.into_iter().filter(|id| remove(names::spill(*id))).count() as u64;
        SnapshotReport { records, bytes: self.position, files_removed, spills_removed }
    }
}

impl Drop for SnapshotWriter {
    fn drop(&mut self) {
        if !self.finished {
            spill::discard(&self.shared, &self.fresh);
            // It is removed at the next start if not now.
            let _ = self.shared.disk.remove(&self.shared.path(names::SNAPSHOT_PART));
        }
        held(&self.shared.state).snapshot_runs = false;
    }
}

impl std::fmt::Debug for SnapshotWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SnapshotWriter").field("records", &self.records).finish_non_exhaustive()
    }
}
