//! The one thread that writes: takes everything that has arrived, writes it by one call, syncs once, wakes all.
//!
//! The next batch is whatever arrives meanwhile, and whatever comes back at once of those that were called
//! (`gather.rs`). A lone submitter gets its sync without delay, and many share one because they arrive during the last.
//!
//! A sync that fails is never tried again, since the kernel may have dropped what it could not write, and a second sync
//! would call that success. The log is poisoned: it acknowledges nothing any more, until somebody has seen to the disk
//! and started again. A disk that is full is no such thing. Whatever could not be written is refused, the place where
//! it would have been holds zeros as before, and the next append may find room.
//!
//! Not here: the zeros of the next segment (`segment.rs`), what a batch is (`batch.rs`).

use crate::batch::{Batch, Outcome};
use crate::config::SyncMode;
use crate::disk::{DiskFile, write_all};
use crate::error::{AppendError, is_full, remedy};
use crate::frame::{Form, Frame, framed_bytes, push, stamp};
use crate::gather::Gather;
use crate::header::{FileKind, HEADER_BYTES, Header};
use crate::journal::{Shared, held};
use crate::names;
use crate::segment::{Preparer, Spare};
use crate::snapshot::Place;
use crate::spill;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};
use std::time::Instant;

/// The file that is written to, and where.
pub(crate) struct Tail {
    pub(crate) file: Box<dyn DiskFile>,
    pub(crate) path: PathBuf,
    pub(crate) number: u64,
    /// How long the file is.
    pub(crate) length: u64,
    /// Where the next record goes.
    pub(crate) position: u64,
    /// Up to where everything was synced.
    pub(crate) synced: u64,
    /// Of the next record.
    pub(crate) sequence: u64,
}

pub(crate) struct Writer {
    pub(crate) shared: Arc<Shared>,
    pub(crate) tail: Tail,
    pub(crate) preparer: Preparer,
    /// No new file is tried before this, and why the last one failed.
    pub(crate) retry: Option<(Instant, Arc<str>)>,
    /// When what was written is to be synced, in the mode that syncs by the clock.
    pub(crate) sync_due: Option<Instant>,
    /// When the next batch is full enough.
    pub(crate) gather: Gather,
}

/// Why a batch was not acknowledged.
enum Fault {
    /// Nothing of it is there, and the log is as before.
    Refused(Arc<str>),
    /// Nobody knows what is there.
    Poisoned(Arc<str>),
}

enum Work {
    Batch(Batch),
    Sync,
    Close,
}

impl Writer {
    /// What the writer's thread does.
    pub(crate) fn run(mut self) {
        loop {
            self.gather();
            match self.next_work() {
                Work::Batch(batch) => self.handle(batch),
                Work::Sync => self.sync_by_the_clock(),
                Work::Close => return self.close(),
            }
        }
    }

    /// Lets those that were just called come again. No wake-up is lost: what ends this wait is looked at and changed
    /// under the lock that the sleep gives up, and each change wakes a writer that `writer_sleeps`. The rest is up to
    /// the clock.
    fn gather(&mut self) {
        let Some(wait) = self.gather.next() else { return };
        let until = Instant::now() + wait.at_most;
        let mut state = held(&self.shared.state);
        while state.filling.appends < wait.appends
            && !self.shared.is_half_full(&state)
            && !state.is_pressing()
        {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            state.writer_sleeps = true;
            state.appends_wanted = wait.appends;
            state = self.shared.work.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        state.writer_sleeps = false;
        state.appends_wanted = 0;
        self.gather.ended(wait, state.filling.appends);
    }

    fn next_work(&self) -> Work {
        let mut state = held(&self.shared.state);
        loop {
            let next = if let Some(batch) = state.closed.pop_front() {
                Some(batch)
            } else if state.filling.is_empty() {
                None
            } else {
                let buffer = state.buffers.pop().unwrap_or_default();
                Some(std::mem::replace(&mut state.filling, Batch::new(buffer)))
            };
            if let Some(batch) = next {
                state.waiting_bytes -= batch.bytes.len();
                state.waiting_records -= batch.records;
                let crowd = state.submitters_sleep > 0;
                drop(state);
                if crowd {
                    self.shared.room.notify_all();
                }
                return Work::Batch(batch);
            }
            if state.closing {
                return Work::Close;
            }
            state.writer_sleeps = true;
            let Some(due) = self.sync_due else {
                state = self.shared.work.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                state.writer_sleeps = false;
                return Work::Sync;
            }
            state = self.shared.work.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn handle(&mut self, mut batch: Batch) {
        let outcome = if batch.records == 0 { Ok(()) } else { self.write_batch(&mut batch) };
        let waiting = held(&self.shared.state).filling.appends;
        let called = batch.fate.end(&outcome);
        if self.shared.config.sync == SyncMode::Group {
            self.gather.called(called, waiting);
        }
        if let Some(cut) = batch.cut.take() {
            cut.end(self.cut());
        }
        let mut buffer = std::mem::take(&mut batch.bytes);
        buffer.clear();
        // One buffer is being filled and one is being written.
        let mut state = held(&self.shared.state);
        if state.buffers.len() < 2 {
            state.buffers.push(buffer);
        }
    }

    fn write_batch(&mut self, batch: &mut Batch) -> Outcome {
        if let Some(reason) = self.shared.poisoned() {
            return Err(AppendError::Poisoned(reason));
        }
        match self.write(&mut batch.bytes) {
            Ok(()) => {
                let (records, bytes) = (batch.records as u64, batch.bytes.len() as u64);
                held(&self.shared.counters).batch(records, bytes);
                let spilled = match batch.spills.as_slice() {
                    [] => 0,
                    spills => held(&self.shared.spills).named(spills, self.tail.number),
                };
                held(&self.shared.files).log_bytes += bytes + spilled;
                Ok(())
            }
            Err(Fault::Refused(reason)) => {
                held(&self.shared.counters).records_refused += batch.records as u64;
                spill::refuse(&self.shared, &batch.spills);
                Err(AppendError::Refused(reason))
            }
            Err(Fault::Poisoned(reason)) => {
                self.shared.poison(&reason);
                Err(AppendError::Poisoned(reason))
            }
        }
    }

    fn write(&mut self, bytes: &mut [u8]) -> Result<(), Fault> {
        if self.tail.position + bytes.len() as u64 > self.tail.length {
            return self.rotate(bytes);
        }
        let tail = &mut self.tail;
        let next = stamp(bytes, seed(&self.shared), offset(tail.synced), tail.sequence);
        if let Err(error) = write_all(tail.file.as_ref(), bytes, tail.position) {
            return Err(self.take_back(&error, bytes.len()));
        }
        tail.position += bytes.len() as u64;
        tail.sequence = next;
        if tail.position - HEADER_BYTES as u64 > tail.length / 2 {
            self.preparer.begin();
        }
        match self.shared.config.sync {
            SyncMode::Group => self.sync(),
            SyncMode::Interval(time) => {
                self.sync_due.get_or_insert_with(|| Instant::now() + time);
                Ok(())
            }
            SyncMode::Off => Ok(()),
        }
    }

    /// After a write that failed: the log is as before if zeros stand again where it went.
    fn take_back(&self, error: &io::Error, bytes: usize) -> Fault {
        let tail = &self.tail;
        let reason = self.reason("was not written", error);
        let restored = is_full(error) && {
            let zeros = vec![0; bytes];
            write_all(tail.file.as_ref(), &zeros, tail.position).and_then(|()| tail.file.sync_data()).is_ok()
        };
        if restored { Fault::Refused(reason) } else { Fault::Poisoned(reason) }
    }

    fn sync(&mut self) -> Result<(), Fault> {
        self.sync_due = None;
        if self.tail.synced == self.tail.position {
            return Ok(());
        }
        let began = Instant::now();
        let synced = self.tail.file.sync_data();
        let time = began.elapsed();
        self.gather.synced(time);
        held(&self.shared.counters).sync(time);
        synced.map_err(|error| Fault::Poisoned(self.reason("was not synced", &error)))?;
        self.tail.synced = self.tail.position;
        Ok(())
    }

    fn sync_by_the_clock(&mut self) {
        if self.shared.poisoned().is_some() {
            self.sync_due = None;
        } else if let Err(Fault::Poisoned(reason) | Fault::Refused(reason)) = self.sync() {
            self.shared.poison(&reason);
        }
    }

    /// Goes on in a new segment, which begins with this batch. It gets its name when the batch is on the disk, so the
    /// old segment stays the last one if anything goes wrong before.
    fn rotate(&mut self, bytes: &mut [u8]) -> Result<(), Fault> {
        // In every mode, so that only the last segment can have a torn tail.
        self.sync()?;
        let spare = self.spare()?;
        let (number, sequence) = (self.tail.number + 1, self.tail.sequence);
        let (kind, log, bytes_made) = (FileKind::Segment, self.shared.log, spare.bytes);
        let header = Header { kind, mended: false, log, number, sequence, bytes: bytes_made };
        let next = stamp(bytes, header.seed(), 0, sequence);
        let written = write_all(spare.file.as_ref(), &header.encode(), 0)
            .and_then(|()| write_all(spare.file.as_ref(), bytes, HEADER_BYTES as u64));
        if let Err(error) = written {
            self.preparer.discard();
            return Err(self.refuse_for_a_while("a new segment was not written", &error));
        }
        let began = Instant::now();
        let path = self.shared.path(&names::segment(number));
        let synced = spare.file.sync_data();
        held(&self.shared.counters).sync(began.elapsed());
        synced.and_then(|()| self.shared.disk.rename(self.preparer.path(), &path)).map_err(|error| {
            Fault::Poisoned(self.reason("could not be followed by a new segment", &error))
        })?;
        self.shared.sync_directory().map_err(Fault::Poisoned)?;
        let position = HEADER_BYTES as u64 + bytes.len() as u64;
        let (file, length) = (spare.file, spare.bytes);
        self.tail = Tail { file, path, number, length, position, synced: position, sequence: next };
        held(&self.shared.files).segments.insert(number, length);
        Ok(())
    }

    fn spare(&mut self) -> Result<Spare, Fault> {
        if let Some((at, reason)) = &self.retry
            && Instant::now() < *at
        {
            return Err(Fault::Refused(Arc::clone(reason)));
        }
        self.retry = None;
        self.preparer.take().map_err(|error| self.refuse_for_a_while("a new segment was not made", &error))
    }

    fn refuse_for_a_while(&mut self, what: &str, error: &io::Error) -> Fault {
        let path = self.preparer.path().display();
        let reason: Arc<str> = format!("{path}: {what}: {error}{}", remedy(error)).into();
        self.retry = Some((Instant::now() + self.shared.config.full_retry, Arc::clone(&reason)));
        Fault::Refused(reason)
    }

    /// A new segment for a snapshot to begin at.
    fn cut(&mut self) -> Result<Place, AppendError> {
        if let Some(reason) = self.shared.poisoned() {
            return Err(AppendError::Poisoned(reason));
        }
        match self.rotate(&mut []) {
            Ok(()) => {
                let log_bytes = held(&self.shared.files).log_bytes;
                Ok(Place { number: self.tail.number, sequence: self.tail.sequence, log_bytes })
            }
            Err(Fault::Refused(reason)) => Err(AppendError::Refused(reason)),
            Err(Fault::Poisoned(reason)) => {
                self.shared.poison(&reason);
                Err(AppendError::Poisoned(reason))
            }
        }
    }

    /// Syncs what is not synced and notes that all is well, if it is.
    fn close(mut self) {
        if self.shared.poisoned().is_none() {
            let mut bytes = Vec::with_capacity(framed_bytes(0));
            push(&mut bytes, &Frame::new(0, 0, Form::Closed, b""), b"");
            let tail = &mut self.tail;
            let fits = tail.position + bytes.len() as u64 <= tail.length;
            let synced = self.sync().and_then(|()| if fits { self.note(&mut bytes) } else { Ok(()) });
            if let Err(Fault::Poisoned(reason) | Fault::Refused(reason)) = synced {
                self.shared.poison(&reason);
            }
        }
        self.preparer.end();
    }

    fn note(&mut self, bytes: &mut [u8]) -> Result<(), Fault> {
        let tail = &mut self.tail;
        tail.sequence = stamp(bytes, seed(&self.shared), offset(tail.synced), tail.sequence);
        let written = write_all(tail.file.as_ref(), bytes, tail.position);
        written.map_err(|error| Fault::Refused(self.reason("was not closed", &error)))?;
        self.tail.position += bytes.len() as u64;
        self.sync()
    }

    fn reason(&self, what: &str, error: &io::Error) -> Arc<str> {
        format!("{}: {what}: {error}{}", self.tail.path.display(), remedy(error)).into()
    }
}

fn seed(shared: &Shared) -> u32 {
    crc32c::crc32c(&shared.log)
}

/// A segment is at most a gigabyte long.
fn offset(position: u64) -> u32 {
    u32::try_from(position).unwrap_or(u32::MAX)
}
