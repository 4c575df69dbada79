//! What lies in a journal's directory, for people who look: read only, without the lock, changing nothing.
//!
//! A journal that is in use can be looked at too. Files may go while they are looked at, and the last segment may be in
//! the middle of a write, which then looks like a torn tail.

use crate::disk::Disk;
use crate::error::OpenError;
use crate::header::{FileKind, HEADER_BYTES, LogId};
use crate::names;
use crate::open::{Found, header_of, read_whole};
use crate::scan::{Ending, scan};
use crate::snapshot_read;
use std::io;
use std::path::Path;

/// What lies in a directory.
#[derive(Clone, Debug, Default)]
pub struct Inspection {
    /// Snapshots and segments, in the order in which a start reads them.
    pub files: Vec<FileInspected>,
    /// Records of the snapshot that counts.
    pub snapshot_records: u64,
    /// Records of the log after it.
    pub log_records: u64,
    /// Payloads in files of their own.
    pub spill_files: u64,
    /// Their bytes.
    pub spill_bytes: u64,
    /// Unfinished files.
    pub parts: u64,
    /// Bytes of everything.
    pub bytes: u64,
}

impl Inspection {
    /// Whether there is no log here at all.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Whether a start would succeed, as far as can be told without the lock.
    pub fn is_sound(&self) -> bool {
        let last = self.files.len().saturating_sub(1);
        self.files.iter().enumerate().all(|(index, file)| match file.state {
            FileState::Sound | FileState::Old => true,
            FileState::Torn { .. } => index == last,
            FileState::Damaged { .. } => false,
        })
    }
}

/// One file of a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileInspected {
    /// Without the directory.
    pub name: String,
    /// How long it is.
    pub bytes: u64,
    /// How much of that is records.
    pub bytes_used: u64,
    /// How many records it has.
    pub records: u64,
    /// How it is.
    pub state: FileState,
}

/// How a file is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileState {
    /// Whole.
    Sound,
    /// Replaced by a snapshot, and removed at the next start.
    Old,
    /// Whole up to here; a start cuts the rest, if this is the last segment.
    Torn {
        /// Where the whole records end.
        offset: u64,
    },
    /// A start stops here.
    Damaged {
        /// What is wrong, without the file's name.
        what: String,
    },
}

/// Looks at every file of a journal.
pub fn inspect(directory: &Path, disk: &dyn Disk) -> Result<Inspection, OpenError> {
    let listed = disk.list(directory).map_err(OpenError::io(directory, "cannot be listed"))?;
    let mut inspection =
        Inspection { bytes: listed.iter().map(|file| file.bytes).sum(), ..Inspection::default() };
    let found = Found::new(listed);
    inspection.spill_files = found.spills.len() as u64;
    inspection.spill_bytes = found.spills.values().sum();
    inspection.parts = found.parts.len() as u64;
    let mut looking = Looking { directory, disk, log: None, buffer: Vec::new(), end: None };
    for (base, bytes) in &found.snapshots {
        let name = names::snapshot(*base);
        if Some(*base) != found.base() {
            inspection.files.push(old(name, *bytes));
        } else if let Some(file) = looking.look(&name, |looking, path| looking.snapshot(path, *base))? {
            inspection.snapshot_records = file.records;
            inspection.files.push(FileInspected { name, bytes: *bytes, ..file });
        }
    }
    for (number, bytes) in &found.segments {
        let name = names::segment(*number);
        if *number < found.first() {
            inspection.files.push(old(name, *bytes));
        } else if let Some(file) = looking.look(&name, |looking, path| looking.segment(path, *number))? {
            inspection.log_records += file.records;
            inspection.files.push(FileInspected { name, bytes: *bytes, ..file });
        }
    }
    Ok(inspection)
}

fn old(name: String, bytes: u64) -> FileInspected {
    FileInspected { name, bytes, bytes_used: 0, records: 0, state: FileState::Old }
}

fn sound(records: u64, bytes_used: u64) -> FileInspected {
    FileInspected { name: String::new(), bytes: 0, bytes_used, records, state: FileState::Sound }
}

struct Looking<'a> {
    directory: &'a Path,
    disk: &'a dyn Disk,
    log: Option<LogId>,
    buffer: Vec<u8>,
    /// Number and sequence number behind the last segment, to see whether one is missing.
    end: Option<(u64, u64)>,
}

impl Looking<'_> {
    /// None if the file went meanwhile; an error of the operating system is one, everything else is told.
    fn look(
        &mut self,
        name: &str,
        read: impl FnOnce(&mut Self, &Path) -> Result<FileInspected, OpenError>,
    ) -> Result<Option<FileInspected>, OpenError> {
        match read(self, &self.directory.join(name)) {
            Ok(file) => Ok(Some(file)),
            Err(OpenError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error @ OpenError::Io { .. }) => Err(error),
            Err(error) => {
                let what = error.what().into_owned();
                Ok(Some(FileInspected { state: FileState::Damaged { what }, ..sound(0, 0) }))
            }
        }
    }

    fn snapshot(&mut self, path: &Path, base: u64) -> Result<FileInspected, OpenError> {
        let file = self.disk.open(path, false).map_err(OpenError::io(path, "cannot be opened"))?;
        let header = header_of(file.as_ref(), path, (FileKind::Snapshot, base), None)?;
        self.log = Some(header.log);
        self.end = Some((base, header.sequence));
        let read = snapshot_read::read(file.as_ref(), path, &header, &mut |_| ())?;
        Ok(sound(read.records, read.bytes))
    }

    fn segment(&mut self, path: &Path, number: u64) -> Result<FileInspected, OpenError> {
        let file = self.disk.open(path, false).map_err(OpenError::io(path, "cannot be opened"))?;
        let header = header_of(file.as_ref(), path, (FileKind::Segment, number), self.log)?;
        self.log = Some(header.log);
        read_whole(file.as_ref(), path, &mut self.buffer)?;
        let scan = scan(&self.buffer, &header);
        let before = self.end.replace((number + 1, scan.sequence));
        let expected = before.unwrap_or((1, 1));
        if expected != (number, header.sequence) && !header.mended {
            let what = "what should come before it is missing".to_owned();
            return Err(OpenError::Damaged { path: path.to_owned(), offset: 0, what });
        }
        let state = match scan.ending {
            Ending::Clean => FileState::Sound,
            Ending::Torn => FileState::Torn { offset: scan.end as u64 },
            Ending::Damaged(what) => FileState::Damaged { what: format!("at byte {}: {what}", scan.end) },
        };
        Ok(FileInspected { state, ..sound(scan.records, (scan.end - HEADER_BYTES) as u64) })
    }
}
