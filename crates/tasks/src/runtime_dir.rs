//! The private directory that the doors of this machine live in: who may come in is decided by the file
//! system.
//!
//! It belongs to the user of the daemon and nobody else may look inside (0700). It is made if it is missing,
//! and checked if it is there: in `/tmp` anybody may have put something under our name. A link is never
//! followed. A lock file decides which daemon the directory belongs to; the lock goes with the process,
//! however it ends, so what a killed daemon left behind is known to be nobody's.
//!
//! Not here: what is put into the directory.

use crate::nearest::shown;
use crate::registry::{HANDLER_NAME_BYTES_MAX, is_handler_name};
use rustix::fs::{FlockOperation, Mode, OFlags, fchmod, flock, fstat, mkdir, open, openat};
use rustix::io::Errno;
use rustix::process::{geteuid, getpid};
use std::env;
use std::fmt::Display;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

/// What a daemon is called if nobody says otherwise.
const DAEMON_NAME: &str = "millpond";
/// Read, write and enter for the owner, nothing for others.
const PRIVATE: Mode = Mode::RWXU;

/// A directory that was found to be private.
#[derive(Debug)]
pub struct RuntimeDir {
    path: PathBuf,
    directory: OwnedFd,
}

/// A lock in the directory. It is given back when this is dropped, or when the process ends in any way.
#[derive(Debug)]
pub struct RuntimeLock {
    /// The lock belongs to this open file. The file itself stays, or two processes could lock two of them.
    file: File,
}

impl Drop for RuntimeLock {
    fn drop(&mut self) {
        // Not left to the closing of the file: a child that is just being started may hold a copy of it.
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

impl RuntimeDir {
    /// `$XDG_RUNTIME_DIR/millpond`, or `/tmp/millpond-UID` where there is no such variable.
    pub fn default_path() -> PathBuf {
        match env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from) {
            Some(base) if base.is_absolute() => base.join("millpond"),
            _ => PathBuf::from(format!("/tmp/millpond-{}", geteuid().as_raw())),
        }
    }

    /// Where the daemon of this name has its directory: that of `millpond` is [the default](Self::default_path),
    /// and others lie beside it. A name with a slash in it is the directory itself.
    pub fn path_for(name: &str) -> io::Result<PathBuf> {
        if name.contains('/') {
            return Ok(PathBuf::from(name));
        }
        if !is_handler_name(name) {
            let text = format!(
                "name: expected 1 to {HANDLER_NAME_BYTES_MAX} characters out of a-z, 0-9, _, . and -, or a path with a \
                 / in it, got {}",
                shown(name)
            );
            return Err(io::Error::new(ErrorKind::InvalidInput, text));
        }
        let mut path = Self::default_path().into_os_string();
        if name != DAEMON_NAME {
            path.push("-");
            path.push(name);
        }
        Ok(path.into())
    }

    /// Opens the directory, and makes it first if it is missing; the folder around it must exist.
    pub fn open(path: &Path) -> io::Result<Self> {
        // A slash at the end would follow a link after all.
        let path: PathBuf = path.components().collect();
        let made = match mkdir(&path, PRIVATE) {
            Ok(()) => true,
            Err(Errno::EXIST) => false,
            Err(error) => {
                return Err(trouble(&path, error, "make the folder around it, or use --runtime-dir"));
            }
        };
        let directory = open(&path, OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
            .map_err(|error| match error {
                Errno::LOOP | Errno::NOTDIR => unfit(&path, "a link or a file", "remove it"),
                error => trouble(&path, error, "use --runtime-dir"),
            })?;
        if made {
            // Whatever the umask took away, or the folder around it passed on.
            fchmod(&directory, PRIVATE)?;
        }
        check_private(&path, directory.as_fd())?;
        Ok(Self { path, directory })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The directory itself, for calls that must not go by its path again.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }

    /// Locks the file `name` in the directory, or says which process has it. Never waits.
    pub fn lock(&self, name: &str) -> io::Result<RuntimeLock> {
        let flags = OFlags::CREATE | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&self.directory, name, flags, Mode::RUSR | Mode::WUSR)
            .map_err(|error| trouble(&self.path.join(name), error, "remove it"))?;
        let mut file = File::from(file);
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(already_running(&self.path, owner_in(&mut file))),
            Err(error) => return Err(trouble(&self.path.join(name), error, "use --runtime-dir")),
        }
        file.set_len(0)?;
        file.rewind()?;
        writeln!(file, "{}", getpid().as_raw_nonzero())?;
        Ok(RuntimeLock { file })
    }
}

/// Another daemon has this directory.
pub(crate) fn already_running(directory: &Path, pid: Option<u32>) -> io::Error {
    let pid = pid.map_or_else(|| "pid unknown".to_owned(), |pid| format!("pid {pid}"));
    let text = format!(
        "{}: a millpond is already running here ({pid}); use --runtime-dir to start another elsewhere",
        directory.display()
    );
    io::Error::new(ErrorKind::AddrInUse, text)
}

/// The number in the lock file. Its owner may just be writing it.
fn owner_in(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.take(32).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

fn check_private(path: &Path, directory: BorrowedFd<'_>) -> io::Result<()> {
    let found = fstat(directory)?;
    let own = geteuid().as_raw();
    if found.st_uid != own {
        return Err(unfit(path, format_args!("one of user {}", found.st_uid), "use --runtime-dir"));
    }
    let mode = found.st_mode & 0o7777;
    if mode & 0o077 != 0 || mode & 0o700 != 0o700 {
        let remedy = format!("chmod 700 {}, or use --runtime-dir", path.display());
        return Err(unfit(path, format_args!("mode {mode:04o}"), remedy));
    }
    Ok(())
}

fn unfit(path: &Path, got: impl Display, remedy: impl Display) -> io::Error {
    let path = path.display();
    let own = geteuid().as_raw();
    let text = format!("{path}: expected a directory of user {own} with mode 0700, got {got}; {remedy}");
    io::Error::new(ErrorKind::PermissionDenied, text)
}

fn trouble(path: &Path, error: Errno, remedy: &str) -> io::Error {
    let error = io::Error::from(error);
    io::Error::new(error.kind(), format!("{}: {error}; {remedy}", path.display()))
}
