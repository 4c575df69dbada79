//! Which file a path means: only one below an allowed directory, and the same one from the check to the end.
//!
//! Checking a path and then opening it would leave room for somebody to swap a directory for a link in
//! between. So the directory is opened first, step by step and without following any link below the allowed
//! one, and from then on only that open directory and one plain name count. The kernel takes all steps at
//! once where it can (`openat2`); elsewhere they are taken here one by one, to the same effect.
//!
//! Only regular files are opened. A pipe could hold the task for ever, and a device may act when it is
//! opened; both are recognised before they are touched, and again after.
//!
//! Not here: reading and writing (`files.rs`), putting a file in place (`put.rs`).

use crate::error::{ErrorCode, TaskFailure};
use crate::nearest::shown;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat, fstat, openat, statat};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

/// Only a place to start from: nothing is read from the directory itself, so it need not be readable.
#[cfg(target_os = "linux")]
const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
#[cfg(not(target_os = "linux"))]
const DIRECTORY: OFlags = OFlags::DIRECTORY.union(OFlags::CLOEXEC);

/// Whatever the name turns out to be, opening it does not wait and makes it nobody's terminal.
const CAREFULLY: OFlags =
    OFlags::NOFOLLOW.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// How a directory below another is opened.
type OpenBelow = fn(&OwnedFd, &Path) -> Result<OwnedFd, Errno>;

/// A file that may be used: an open directory, and one name in it.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) directory: OwnedFd,
    /// Neither empty, nor `.` or `..`, and without a slash.
    pub(super) name: PathBuf,
    /// The path as it was given, for messages.
    path: String,
}

impl Place {
    /// The place that `path` means, if it lies below one of the `allowed` directories.
    pub(super) fn find(allowed: &[PathBuf], path: &str) -> Result<Self, TaskFailure> {
        Self::find_with(allowed, path, open_below)
    }

    /// The same as where the kernel cannot take all steps at once.
    #[cfg(test)]
    pub(super) fn find_by_walking(allowed: &[PathBuf], path: &str) -> Result<Self, TaskFailure> {
        Self::find_with(allowed, path, walk)
    }

    fn find_with(allowed: &[PathBuf], path: &str, open: OpenBelow) -> Result<Self, TaskFailure> {
        let (root, below) = split(allowed, path)?;
        let (Some(parent), Some(name)) = (below.parent(), below.file_name()) else {
            return Err(bad_path(path, "a file below an allowed directory, got the directory itself"));
        };
        let failed = |errno| failure(path, errno);
        let top = openat(CWD, root, DIRECTORY, Mode::empty()).map_err(|errno| {
            let message = format!("allow.files: {}: {}", shown(&root.to_string_lossy()), described(errno));
            TaskFailure::new(ErrorCode::HandlerError, message)
        })?;
        let directory =
            if parent.as_os_str().is_empty() { top } else { open(&top, parent).map_err(failed)? };
        Ok(Self { directory, name: name.into(), path: path.to_owned() })
    }

    /// Opens what is there, which must be a regular file.
    pub(super) fn open(&self, flags: OFlags) -> Result<File, TaskFailure> {
        self.look()?.ok_or_else(|| self.failed(Errno::NOENT))?;
        let file = openat(&self.directory, &self.name, flags | CAREFULLY, Mode::empty());
        self.checked(file)
    }

    /// As `open`, but makes an empty file if there is none.
    pub(super) fn open_or_create(&self, flags: OFlags) -> Result<File, TaskFailure> {
        self.look()?;
        let flags = flags | CAREFULLY | OFlags::CREATE;
        self.checked(openat(&self.directory, &self.name, flags, Mode::from_raw_mode(0o666)))
    }

    /// What has the name now: a regular file, or nothing. Anything else is refused.
    pub(super) fn look(&self) -> Result<Option<Stat>, TaskFailure> {
        match statat(&self.directory, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => self.regular(stat).map(Some),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(self.failed(errno)),
        }
    }

    /// Says about this file what went wrong.
    pub(super) fn failed(&self, error: impl Into<io::Error>) -> TaskFailure {
        let error = error.into();
        let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
        failure(&self.path, errno)
    }

    /// The path as a message shows it.
    pub(super) fn shown(&self) -> String {
        shown(&self.path)
    }

    fn checked(&self, file: Result<OwnedFd, Errno>) -> Result<File, TaskFailure> {
        let file = file.map_err(|errno| self.failed(errno))?;
        self.regular(fstat(&file).map_err(|errno| self.failed(errno))?)?;
        Ok(file.into())
    }

    fn regular(&self, stat: Stat) -> Result<Stat, TaskFailure> {
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => return Ok(stat),
            FileType::Symlink => return Err(self.failed(Errno::LOOP)),
            FileType::Directory => "a directory",
            FileType::Fifo => "a pipe",
            FileType::Socket => "a socket",
            FileType::CharacterDevice | FileType::BlockDevice => "a device",
            FileType::Unknown => "something else",
        };
        let message = format!("args.path: {}: expected a regular file, got {kind}", self.shown());
        Err(TaskFailure::new(ErrorCode::NotAllowed, message))
    }
}

/// Cuts a path into the allowed directory it lies below and the way from there.
fn split<'a>(allowed: &'a [PathBuf], path: &'a str) -> Result<(&'a Path, &'a Path), TaskFailure> {
    if path.is_empty() || path.contains('\0') {
        return Err(bad_path(path, "a path without zero bytes"));
    }
    let asked = Path::new(path);
    if asked.components().any(|part| part == Component::ParentDir) {
        return Err(not_allowed(
            path,
            "`..` may lead out of the allowed directories; write the path without it",
        ));
    }
    if allowed.is_empty() {
        return Err(not_allowed(path, "no directory is allowed; add one to allow.files"));
    }
    if asked.is_relative() {
        return match allowed {
            [only] => Ok((only, asked.strip_prefix(".").unwrap_or(asked))),
            _ => Err(bad_path(path, "an absolute path, because more than one directory is allowed")),
        };
    }
    let below = |root: &'a PathBuf| Some((root.as_path(), asked.strip_prefix(root).ok()?));
    // Directories may lie in each other. The deepest leaves the shortest way to be checked.
    let deepest = allowed.iter().filter_map(below).min_by_key(|(_, below)| below.components().count());
    deepest.ok_or_else(|| not_allowed(path, "it lies below none of the directories in allow.files"))
}

/// Opens the directory `way` below `top` without following links.
fn open_below(top: &OwnedFd, way: &Path) -> Result<OwnedFd, Errno> {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{ResolveFlags, openat2};
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        match openat2(top, way, DIRECTORY, Mode::empty(), resolve) {
            // The kernel does not know the call, a sandbox forbids it, or something was moved meanwhile.
            Err(Errno::NOSYS | Errno::PERM | Errno::AGAIN) => {}
            answer => return answer,
        }
    }
    walk(top, way)
}

/// The same step by step. `way` has no `..`, so each step leads one directory down and nowhere else.
fn walk(top: &OwnedFd, way: &Path) -> Result<OwnedFd, Errno> {
    let mut steps = way.components();
    let first = steps.next().ok_or(Errno::INVAL)?;
    let mut directory = step(top, first.as_ref())?;
    for next in steps {
        directory = step(&directory, next.as_ref())?;
    }
    Ok(directory)
}

fn step(directory: impl AsFd, name: &Path) -> Result<OwnedFd, Errno> {
    match openat(&directory, name, DIRECTORY | OFlags::NOFOLLOW, Mode::empty()) {
        // A link is no directory either. The difference matters for the message only.
        Err(Errno::NOTDIR) => match statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink => Err(Errno::LOOP),
            _ => Err(Errno::NOTDIR),
        },
        answer => answer,
    }
}

fn bad_path(path: &str, expected: &str) -> TaskFailure {
    TaskFailure::new(ErrorCode::BadArguments, format!("args.path: {}: expected {expected}", shown(path)))
}

fn not_allowed(path: &str, why: &str) -> TaskFailure {
    TaskFailure::new(ErrorCode::NotAllowed, format!("args.path: {} is not allowed: {why}", shown(path)))
}

fn failure(path: &str, errno: Errno) -> TaskFailure {
    match errno {
        Errno::LOOP | Errno::XDEV => not_allowed(
            path,
            "a symbolic link is on the way, and below an allowed directory none is followed",
        ),
        // A pipe that nobody reads cannot be opened for writing without waiting.
        Errno::NXIO => not_allowed(path, "expected a regular file, got a pipe or a device"),
        _ => {
            let message = format!("args.path: {}: {}", shown(path), described(errno));
            TaskFailure::new(ErrorCode::HandlerError, message)
        }
    }
}

/// What the system calls the error, without its number and in lower case.
fn described(errno: Errno) -> String {
    let text = io::Error::from(errno).to_string();
    text.split(" (os error").next().unwrap_or(&text).to_lowercase()
}
