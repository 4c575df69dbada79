//! How a journal comes back: which files count, what of them is whole, and what is handed to the owner of the state.
//!
//! The newest snapshot counts and every segment from the one it names; older files are what a crash kept from being
//! removed. Everything is checked before the journal takes anything new. If a file is damaged nothing is changed, and
//! the error says where. What the last run may not have synced is written and synced once more before it counts: the
//! kernel forgets a failed write when the process is gone, and the next sync would call it success.
//!
//! Not here: judging a segment (`scan.rs`).

use crate::batch::Batch;
use crate::config::JournalConfig;
use crate::disk::{Disk, DiskFile, FileFound, LockGuard, Locking, read_up_to, write_all};
use crate::error::OpenError;
use crate::gather::Gather;
use crate::header::{FileKind, HEADER_BYTES, Header, LogId};
use crate::journal::{Files, Journal, Shared, State};
use crate::names::{self, Name};
use crate::record::{Payload, Record, SpillRef};
use crate::scan::{Ending, Scan, each, scan};
use crate::segment::Preparer;
use crate::snapshot_read;
use crate::spill::SpillTable;
use crate::stats::Counters;
use crate::writer::{Tail, Writer};
use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

/// What was found when a journal was opened.
#[derive(Clone, Debug, Default)]
pub struct Recovery {
    /// There was no journal, and now there is.
    pub created: bool,
    /// The last run closed it in good order.
    pub clean: bool,
    /// Records of the snapshot.
    pub snapshot_records: u64,
    /// Records of the log after it.
    pub log_records: u64,
    /// Bytes of both.
    pub bytes: u64,
    /// How much of a torn tail was cut, which nobody had been promised.
    pub cut_bytes: u64,
    /// Where in the last segment it was cut.
    pub cut_offset: u64,
    /// Files left behind by a crash that were removed.
    pub files_removed: u64,
    /// How long it took, with what `replay` did.
    pub time: Duration,
}

/// The files of a directory, sorted by what they are.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) snapshots: BTreeMap<u64, u64>,
    pub(crate) segments: BTreeMap<u64, u64>,
    pub(crate) spills: BTreeMap<u64, u64>,
    pub(crate) parts: Vec<String>,
}

impl Found {
    pub(crate) fn new(files: Vec<FileFound>) -> Self {
        let mut found = Self::default();
        for file in files {
            match Name::of(&file.name) {
                Some(Name::Snapshot(base)) => drop(found.snapshots.insert(base, file.bytes)),
                Some(Name::Segment(number)) => drop(found.segments.insert(number, file.bytes)),
                Some(Name::Spill(id)) => drop(found.spills.insert(id, file.bytes)),
                Some(Name::Part) => found.parts.push(file.name),
                None => {}
            }
        }
        found
    }

    /// Whether there is no log here.
    pub(crate) fn is_empty(&self) -> bool {
        self.segments.is_empty() && self.snapshots.is_empty()
    }

    pub(crate) fn base(&self) -> Option<u64> {
        self.snapshots.keys().next_back().copied()
    }

    /// The first segment that counts.
    pub(crate) fn first(&self) -> u64 {
        self.base().unwrap_or(1)
    }
}

/// Takes the directory for this process.
pub(crate) fn lock(disk: &dyn Disk, directory: &Path) -> Result<Box<dyn LockGuard>, OpenError> {
    let path = directory.join(names::LOCK);
    let note = format!("{}\n", std::process::id());
    match disk.lock(&path, &note).map_err(OpenError::io(&path, "cannot be locked"))? {
        Locking::Locked(guard) => Ok(guard),
        Locking::Held(holder) => Err(OpenError::Locked { directory: directory.to_owned(), holder }),
    }
}

/// The header of an open file, which must be of this log if one is known already.
pub(crate) fn header_of(
    file: &dyn DiskFile,
    path: &Path,
    expected: (FileKind, u64),
    log: Option<LogId>,
) -> Result<Header, OpenError> {
    let mut block = vec![0; HEADER_BYTES];
    let read = read_up_to(file, &mut block, 0).map_err(OpenError::io(path, "cannot be read"))?;
    let header = Header::decode(&block[..read]).map_err(|fault| fault.at(path))?;
    if log.is_some_and(|log| log != header.log) {
        return Err(OpenError::Mixed { path: path.to_owned() });
    }
    let damaged = |what: String| Err(OpenError::Damaged { path: path.to_owned(), offset: 0, what });
    if (header.kind, header.number) != expected {
        return damaged("the header belongs to a file of another name".to_owned());
    }
    let bytes = file.length().map_err(OpenError::io(path, "cannot be measured"))?;
    if bytes != header.bytes {
        return damaged(format!("the file has {bytes} bytes and was made with {}", header.bytes));
    }
    Ok(header)
}

pub(crate) fn open(
    config: JournalConfig,
    disk: Arc<dyn Disk>,
    replay: &mut dyn FnMut(Record<'_>),
) -> Result<(Journal, Recovery), OpenError> {
    let began = Instant::now();
    config.check()?;
    make_directory(disk.as_ref(), &config.directory)?;
    let lock = lock(disk.as_ref(), &config.directory)?;
    let listed = disk.list(&config.directory);
    let found = Found::new(listed.map_err(OpenError::io(&config.directory, "cannot be listed"))?);
    let mut opening = Opening::new(disk.as_ref(), &config.directory, &found);
    let (tail, log) = match opening.read(replay)? {
        Some((tail, log)) => (tail, log),
        None => begin(disk.as_ref(), &config)?,
    };
    opening.recovery.created = found.segments.is_empty();
    opening.tidy()?;
    let Opening { recovery: mut told, spills, mut files, .. } = opening;
    files.segments.insert(tail.number, tail.length);
    told.time = began.elapsed();
    let shared = Arc::new(Shared {
        state: Mutex::new(fresh_state()),
        work: Condvar::new(),
        room: Condvar::new(),
        spills: Mutex::new(spills),
        counters: Mutex::new(Counters::default()),
        writer: OnceLock::new(),
        files: Mutex::new(files),
        _lock: lock,
        log,
        config,
        disk,
    });
    start(shared, tail).map(|journal| (journal, told))
}

fn fresh_state() -> State {
    State {
        filling: Batch::new(Vec::new()),
        closed: VecDeque::new(),
        waiting_bytes: 0,
        waiting_records: 0,
        buffers: Vec::new(),
        writer_sleeps: false,
        appends_wanted: 0,
        submitters_sleep: 0,
        closing: false,
        snapshot_runs: false,
        poison: None,
    }
}

fn start(shared: Arc<Shared>, tail: Tail) -> Result<Journal, OpenError> {
    let config = &shared.config;
    let preparer = Preparer::new(Arc::clone(&shared.disk), &config.directory, config.segment_bytes);
    let gather = Gather::default();
    let writer = Writer { shared: Arc::clone(&shared), tail, preparer, retry: None, sync_due: None, gather };
    let builder = thread::Builder::new().name("journal".to_owned());
    let thread = builder.spawn(move || writer.run());
    let thread = thread.map_err(OpenError::io(&shared.config.directory, "no thread for the journal"))?;
    // Nothing was appended yet, so no callback can have asked.
    let _ = shared.writer.set(thread.thread().id());
    Ok(Journal::new(shared, thread))
}

fn make_directory(disk: &dyn Disk, directory: &Path) -> Result<(), OpenError> {
    if disk.list(directory).is_ok() {
        return Ok(());
    }
    disk.create_directory(directory).map_err(OpenError::io(directory, "cannot be made"))?;
    let parent = match directory.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    disk.sync_directory(parent).map_err(OpenError::io(parent, "cannot be synced"))
}

/// The first segment of a new log.
fn begin(disk: &dyn Disk, config: &JournalConfig) -> Result<(Tail, LogId), OpenError> {
    let directory = &config.directory;
    let mut log = LogId::default();
    rustix::rand::getrandom(&mut log, rustix::rand::GetRandomFlags::empty())
        .map_err(|error| OpenError::io(directory, "no random number for the log")(error.into()))?;
    let bytes = config.segment_bytes;
    let header = Header { kind: FileKind::Segment, mended: false, log, number: 1, sequence: 1, bytes };
    let path = directory.join(names::segment(1));
    let spare = crate::segment::make(disk, directory, config.segment_bytes);
    let spare = spare.map_err(OpenError::io(&path, "cannot be made"))?;
    write_all(spare.file.as_ref(), &header.encode(), 0)
        .and_then(|()| spare.file.sync_data())
        .and_then(|()| disk.rename(&directory.join(names::SPARE), &path))
        .and_then(|()| disk.sync_directory(directory))
        .map_err(OpenError::io(&path, "cannot be written"))?;
    let position = HEADER_BYTES as u64;
    let (file, length) = (spare.file, spare.bytes);
    Ok((Tail { file, path, number: 1, length, position, synced: position, sequence: 1 }, log))
}

struct Opening<'a> {
    disk: &'a dyn Disk,
    directory: &'a Path,
    found: &'a Found,
    recovery: Recovery,
    spills: SpillTable,
    files: Files,
    log: Option<LogId>,
}

impl<'a> Opening<'a> {
    fn new(disk: &'a dyn Disk, directory: &'a Path, found: &'a Found) -> Self {
        let (recovery, spills, files) = (Recovery::default(), SpillTable::default(), Files::default());
        Self { disk, directory, found, recovery, spills, files, log: None }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Hands out everything and says where the log goes on, unless there is no log.
    fn read(&mut self, replay: &mut dyn FnMut(Record<'_>)) -> Result<Option<(Tail, LogId)>, OpenError> {
        let first = self.found.first();
        let mut numbers = self.found.segments.range(first..).map(|(number, _)| *number).peekable();
        if numbers.peek().is_none() && self.found.base().is_none() {
            return self.nothing_lost().map(|()| None);
        }
        let mut before = self.read_snapshot(replay)?;
        let mut expected = first;
        let mut buffer = Vec::new();
        loop {
            let number = numbers.next();
            if number != Some(expected) {
                return Err(self.missing(expected));
            }
            let next = numbers.peek().copied();
            let (tail, mended) = self.read_segment(expected, before, next.is_none(), &mut buffer, replay)?;
            if next.is_none() {
                let log = self.log.unwrap_or_default();
                return Ok(Some((tail, log)));
            }
            before = Some(Before { sequence: tail.sequence, mended });
            expected += 1;
        }
    }

    /// Without a log, there must not be anything that a log once named.
    fn nothing_lost(&self) -> Result<(), OpenError> {
        let older = self.found.segments.keys().next().map(|number| names::segment(*number));
        let large = self.found.spills.keys().next().map(|id| names::spill(*id));
        match older.or(large) {
            None => Ok(()),
            Some(name) => {
                let what = "there is no log that belongs to it".to_owned();
                Err(OpenError::Damaged { path: self.path(&name), offset: 0, what })
            }
        }
    }

    fn missing(&self, number: u64) -> OpenError {
        let what = "this segment is missing, and others that need it are there".to_owned();
        OpenError::Damaged { path: self.path(&names::segment(number)), offset: 0, what }
    }

    /// Says where the log goes on behind the snapshot, if there is one.
    fn read_snapshot(&mut self, replay: &mut dyn FnMut(Record<'_>)) -> Result<Option<Before>, OpenError> {
        let Some(base) = self.found.base() else { return Ok(None) };
        let path = self.path(&names::snapshot(base));
        let file = self.disk.open(&path, false).map_err(OpenError::io(&path, "cannot be opened"))?;
        let header = header_of(file.as_ref(), &path, (FileKind::Snapshot, base), None)?;
        self.log = Some(header.log);
        let mut named = Vec::new();
        let mut take = |record: Record<'_>| {
            named.extend(spill_of(&record));
            replay(record);
        };
        let read = snapshot_read::read(file.as_ref(), &path, &header, &mut take)?;
        for spill in named {
            self.name(&path, &spill, 0)?;
        }
        self.recovery.snapshot_records = read.records;
        self.recovery.bytes += read.bytes;
        self.files.snapshot_base = Some(base);
        self.files.snapshot_bytes = read.bytes;
        self.files.snapshot_records = read.records;
        Ok(Some(Before { sequence: header.sequence, mended: header.mended }))
    }

    fn read_segment(
        &mut self,
        number: u64,
        before: Option<Before>,
        is_last: bool,
        buffer: &mut Vec<u8>,
        replay: &mut dyn FnMut(Record<'_>),
    ) -> Result<(Tail, bool), OpenError> {
        let path = self.path(&names::segment(number));
        let file = self.disk.open(&path, is_last);
        let file = file.map_err(OpenError::io(&path, "cannot be opened"))?;
        let header = header_of(file.as_ref(), &path, (FileKind::Segment, number), self.log)?;
        self.log = Some(header.log);
        let damaged = |offset: u64, what: &str| OpenError::Damaged {
            path: path.clone(),
            offset,
            what: what.to_owned(),
        };
        if before.is_some_and(|before| !before.is_followed_by(&header)) {
            return Err(damaged(0, "records at the end of the file before it are missing"));
        }
        read_whole(file.as_ref(), &path, buffer)?;
        let scan = scan(buffer, &header);
        match scan.ending {
            Ending::Clean => {}
            Ending::Torn if is_last => self.cut(file.as_ref(), &path, buffer, &scan)?,
            Ending::Torn => {
                return Err(damaged(scan.end as u64, "pieces of records, in a segment that was finished"));
            }
            Ending::Damaged(what) => return Err(damaged(scan.end as u64, what)),
        }
        if is_last && !scan.closed {
            settle(file.as_ref(), &path, buffer, &scan)?;
        }
        let mut named = Vec::new();
        each(buffer, &header, scan.end, |_, record| {
            named.extend(spill_of(&record));
            replay(record);
        });
        let mut log_bytes = (scan.end - HEADER_BYTES) as u64;
        for spill in named {
            self.name(&path, &spill, number)?;
            log_bytes += spill.bytes;
        }
        self.recovery.log_records += scan.records;
        self.recovery.bytes += (scan.end - HEADER_BYTES) as u64;
        self.recovery.clean = scan.closed;
        self.files.log_bytes += log_bytes;
        let (position, length) = (scan.end as u64, buffer.len() as u64);
        self.files.segments.insert(number, length);
        let (synced, sequence) = (position, scan.sequence);
        Ok((Tail { file, path, number, length, position, synced, sequence }, header.mended))
    }

    /// Puts zeros where a torn tail was.
    fn cut(
        &mut self,
        file: &dyn DiskFile,
        path: &Path,
        buffer: &mut [u8],
        scan: &Scan,
    ) -> Result<(), OpenError> {
        let torn = &mut buffer[scan.end..];
        let length = torn.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        torn[..length].fill(0);
        self.recovery.cut_bytes = length as u64;
        self.recovery.cut_offset = scan.end as u64;
        write_all(file, &torn[..length], scan.end as u64)
            .and_then(|()| file.sync_data())
            .map_err(OpenError::io(path, "the torn tail cannot be cut"))
    }

    /// Notes that a record names a large payload, which must be there and as long as it says.
    fn name(&mut self, path: &Path, spill: &SpillRef, segment: u64) -> Result<(), OpenError> {
        if self.found.spills.get(&spill.id) != Some(&spill.bytes) {
            let name = names::spill(spill.id);
            let what = format!("a record names {name} with {} bytes, which is not there so", spill.bytes);
            return Err(OpenError::Damaged { path: path.to_owned(), offset: 0, what });
        }
        self.spills.found(spill, segment);
        Ok(())
    }

    /// Removes what a crash kept from being removed, and what nobody was promised.
    fn tidy(&mut self) -> Result<(), OpenError> {
        let first = self.found.first();
        let mut old: Vec<String> = self.found.parts.clone();
        old.extend(self.found.segments.range(..first).map(|(number, _)| names::segment(*number)));
        let base = self.found.base();
        old.extend(
            self.found.snapshots.keys().filter(|at| Some(**at) != base).map(|at| names::snapshot(*at)),
        );
        for id in self.found.spills.keys() {
            self.spills.skip(*id);
            if !self.spills.has(*id) {
                old.push(names::spill(*id));
            }
        }
        for name in old {
            let path = self.path(&name);
            match self.disk.remove(&path) {
                Ok(()) => self.recovery.files_removed += 1,
                // The first segment of a new log was a part a moment ago.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(OpenError::io(&path, "cannot be removed")(error)),
            }
        }
        let synced = self.disk.sync_directory(self.directory);
        synced.map_err(OpenError::io(self.directory, "cannot be synced"))
    }
}

/// The end of the file before a segment.
#[derive(Clone, Copy)]
struct Before {
    sequence: u64,
    mended: bool,
}

impl Before {
    /// Nothing is missing in between, unless a repair could not save it.
    fn is_followed_by(self, header: &Header) -> bool {
        let gap_allowed = self.mended || header.mended;
        self.sequence == header.sequence || (gap_allowed && self.sequence < header.sequence)
    }
}

fn spill_of(record: &Record<'_>) -> Option<SpillRef> {
    match record.payload {
        Payload::Spilled(spill) => Some(spill),
        Payload::Bytes(_) => None,
    }
}

pub(crate) fn read_whole(file: &dyn DiskFile, path: &Path, buffer: &mut Vec<u8>) -> Result<(), OpenError> {
    let length = file.length().map_err(OpenError::io(path, "cannot be measured"))?;
    buffer.resize(usize::try_from(length).unwrap_or(usize::MAX), 0);
    let read = read_up_to(file, buffer, 0).map_err(OpenError::io(path, "cannot be read"))?;
    buffer.truncate(read);
    Ok(())
}

/// Writes what may never have reached the disk once more, and syncs it.
fn settle(file: &dyn DiskFile, path: &Path, buffer: &[u8], scan: &Scan) -> Result<(), OpenError> {
    let unsure = &buffer[scan.synced.min(scan.end)..scan.end];
    write_all(file, unsure, (scan.end - unsure.len()) as u64)
        .and_then(|()| file.sync_data())
        .map_err(OpenError::io(path, "cannot be synced"))
}
