//! What can go wrong, one enum for each thing that is done, with a stable code for programs.
//!
//! A message names the file and what to do. Errors of an append can be cloned, since everybody who waits for the same
//! batch is told the same.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{error, fmt, io};

/// Why a journal was not opened. Nothing was lost by trying.
#[derive(Debug)]
pub enum OpenError {
    /// A setting that cannot be meant.
    Config(String),
    /// The operating system refused.
    Io {
        /// Of which file or directory.
        path: PathBuf,
        /// What was being done.
        doing: &'static str,
        /// What it said.
        source: io::Error,
    },
    /// Another process has the directory.
    Locked {
        /// Which directory.
        directory: PathBuf,
        /// The pid it left in the lock file.
        holder: String,
    },
    /// A file with a name of ours that is no file of ours.
    Foreign {
        /// Which file.
        path: PathBuf,
    },
    /// A file of another format version.
    Version {
        /// Which file.
        path: PathBuf,
        /// The version it has.
        found: u32,
        /// The version this build reads.
        known: u32,
    },
    /// A file of another log.
    Mixed {
        /// Which file.
        path: PathBuf,
    },
    /// Something that was whole once is not whole now.
    Damaged {
        /// Which file.
        path: PathBuf,
        /// Where in it.
        offset: u64,
        /// What is wrong there.
        what: String,
    },
}

impl OpenError {
    /// The same for the same fault in every release.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Config(_) => "journal-config",
            Self::Io { .. } => "journal-io",
            Self::Locked { .. } => "journal-locked",
            Self::Foreign { .. } => "journal-foreign",
            Self::Version { .. } => "journal-version",
            Self::Mixed { .. } => "journal-mixed",
            Self::Damaged { .. } => "journal-damaged",
        }
    }

    /// What is wrong, without the file's name and what to do.
    pub(crate) fn what(&self) -> Cow<'_, str> {
        match self {
            Self::Config(what) => Cow::Borrowed(what),
            Self::Io { doing, source, .. } => Cow::Owned(format!("{doing}: {source}")),
            Self::Locked { holder, .. } => {
                Cow::Owned(format!("another process has this journal open (pid {holder})"))
            }
            Self::Foreign { .. } => Cow::Borrowed("not a journal file"),
            Self::Version { found, known, .. } => {
                Cow::Owned(format!("format {found}, this build reads {known}"))
            }
            Self::Mixed { .. } => Cow::Borrowed("belongs to another log than the files beside it"),
            Self::Damaged { offset, what, .. } => Cow::Owned(format!("at byte {offset}: {what}")),
        }
    }

    pub(crate) fn io(path: &Path, doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path, doing, source }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = self.what();
        match self {
            Self::Config(_) => f.write_str(&what),
            Self::Io { path, source, .. } => write!(f, "{}: {what}{}", path.display(), remedy(source)),
            Self::Locked { directory, .. } => {
                write!(f, "{}: {what}; end it, or choose another directory", directory.display())
            }
            Self::Foreign { path } => {
                write!(f, "{}: {what}; move it away or choose another directory", path.display())
            }
            Self::Version { path, .. } => {
                write!(f, "{}: {what}; start the release that wrote it", path.display())
            }
            Self::Mixed { path } => {
                write!(f, "{}: {what}; move it back to where it came from", path.display())
            }
            Self::Damaged { path, .. } => write!(
                f,
                "{}: damaged {what}; `millpond journal repair` saves what is whole and puts the rest aside",
                path.display()
            ),
        }
    }
}

impl error::Error for OpenError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

pub(crate) fn remedy(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::PermissionDenied => "; let the user who runs this own the directory and its files",
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "; make room on the disk",
        _ => "",
    }
}

/// Whether this is a matter of room, which somebody can make.
pub(crate) fn is_full(source: &io::Error) -> bool {
    matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Why records were not taken, or not acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AppendError {
    /// More than one append may hold.
    TooLarge {
        /// What was too large.
        what: &'static str,
        /// How much was given.
        given: usize,
        /// How much is allowed.
        max: usize,
        /// The setting that says so.
        setting: &'static str,
    },
    /// The writer has as much waiting as it may. Only `try_append` says so, and `append` within a callback.
    Full {
        /// Bytes that wait.
        bytes: usize,
        /// Records that wait.
        records: usize,
    },
    /// There is no room on the disk, or a file could not be made. Nothing of the append is kept, and the same append
    /// may be tried again.
    Refused(Arc<str>),
    /// A payload's own file could not be written. Nothing of the append is kept.
    Spill(Arc<str>),
    /// A write or a sync failed, so nobody knows what is on the disk. The log takes nothing any more.
    Poisoned(Arc<str>),
    /// The journal was closed.
    Closed,
}

impl AppendError {
    /// The same for the same fault in every release.
    pub fn code(&self) -> &'static str {
        match self {
            Self::TooLarge { .. } => "journal-too-large",
            Self::Full { .. } => "journal-full",
            Self::Refused(_) => "journal-refused",
            Self::Spill(_) => "journal-spill",
            Self::Poisoned(_) => "journal-poisoned",
            Self::Closed => "journal-closed",
        }
    }
}

impl fmt::Display for AppendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge { what, given, max, setting } => {
                write!(f, "{what}: {given}, {max} is the most; send less or raise {setting}")
            }
            Self::Full { bytes, records } => write!(
                f,
                "the journal is full: {records} records of {bytes} bytes wait for the disk; try again shortly"
            ),
            Self::Refused(reason) => write!(f, "the journal cannot take this now: {reason}; try again later"),
            Self::Spill(reason) => write!(f, "a large payload was not written: {reason}"),
            Self::Poisoned(reason) => {
                write!(f, "the journal takes nothing any more: {reason}; see to the disk and start again")
            }
            Self::Closed => f.write_str("the journal is closed"),
        }
    }
}

impl error::Error for AppendError {}

/// Why a large payload was not read.
#[derive(Debug)]
pub enum ReadError {
    /// The operating system refused.
    Io(PathBuf, io::Error),
    /// The bytes are not those that were written.
    Damaged(PathBuf),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(path, source) => write!(f, "{}: cannot be read: {source}", path.display()),
            Self::Damaged(path) => {
                write!(f, "{}: its bytes are not those that were written", path.display())
            }
        }
    }
}

impl error::Error for ReadError {}

/// Why there is no snapshot. The log is as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SnapshotError {
    /// One at a time.
    Running,
    /// The operating system refused, or there was no room.
    Failed(Arc<str>),
    /// The log takes nothing any more.
    Poisoned(Arc<str>),
    /// The journal was closed.
    Closed,
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Running => f.write_str("a snapshot is already being written; wait for it"),
            Self::Failed(reason) => write!(f, "the snapshot was not written: {reason}; the log is unharmed"),
            Self::Poisoned(reason) => write!(f, "the journal takes nothing any more: {reason}"),
            Self::Closed => f.write_str("the journal is closed"),
        }
    }
}

impl error::Error for SnapshotError {}

/// Why a repair did not come to its end. Nothing was deleted.
#[derive(Debug)]
pub enum RepairError {
    /// What `open` would say as well.
    Open(OpenError),
    /// No file tells the number of the log, so no record can be told from noise.
    Unreadable(PathBuf),
}

impl fmt::Display for RepairError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open(error) => error.fmt(f),
            Self::Unreadable(path) => write!(
                f,
                "{}: no file has a readable header, so no record can be told from noise; put back a copy of the \
                 directory",
                path.display()
            ),
        }
    }
}

impl error::Error for RepairError {}

impl From<OpenError> for RepairError {
    fn from(error: OpenError) -> Self {
        Self::Open(error)
    }
}
