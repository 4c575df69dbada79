//! The socket in the runtime directory: made anew over one that nobody answers, never over one that lives.
//!
//! The lock decides between daemons. The question to an old socket is asked as well, because a lock file can
//! be deleted, and then the lock would be of a file that nobody else sees. The socket is 0600, and the
//! directory around it 0700: nobody else has a moment in which to connect.
//!
//! Not here: who may talk once the connection stands (each door decides).

use crate::runtime_dir::{RuntimeDir, RuntimeLock, already_running};
use rustix::fs::{AtFlags, FileType, Mode, Stat, chmod, statat, unlinkat};
use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// The longest path of a socket, in bytes: the kernel has 108, one of them for the zero at the end.
const PATH_BYTES_MAX: usize = 107;

/// A socket that this process listens to. The file goes when this is dropped.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    directory: RuntimeDir,
    name: OsString,
    /// Which file it is, so that no other is removed.
    identity: (u64, u64),
    _lock: RuntimeLock,
}

impl SocketFile {
    /// Takes the directory around `path`, and listens there. The listener waits in its calls, as those of
    /// the standard library do.
    pub fn listen(path: &Path) -> io::Result<(Self, UnixListener)> {
        let (Some(around), Some(name)) = (path.parent(), path.file_name()) else {
            let text = format!("{}: expected the path of a socket in a directory of its own", path.display());
            return Err(io::Error::new(ErrorKind::InvalidInput, text));
        };
        let around = if around.as_os_str().is_empty() { Path::new(".") } else { around };
        let bytes = path.as_os_str().len();
        if bytes > PATH_BYTES_MAX {
            let text = format!(
                "{}: the path of a socket has at most {PATH_BYTES_MAX} bytes, got {bytes}; use a shorter \
                 --runtime-dir",
                path.display()
            );
            return Err(io::Error::new(ErrorKind::InvalidInput, text));
        }
        let directory = RuntimeDir::open(around)?;
        let mut lock_name = PathBuf::from(name);
        lock_name.set_extension("lock");
        let lock = directory.lock(&lock_name.to_string_lossy())?;
        remove_stale(&directory, name, path)?;
        let listener = UnixListener::bind(path).map_err(|error| {
            io::Error::new(error.kind(), format!("{}: cannot listen here: {error}", path.display()))
        })?;
        chmod(path, Mode::RUSR | Mode::WUSR)?;
        let found = statat(directory.fd(), name, AtFlags::SYMLINK_NOFOLLOW)?;
        let (path, name) = (path.to_owned(), name.to_owned());
        Ok((Self { path, directory, name, identity: identity(&found), _lock: lock }, listener))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let found = statat(self.directory.fd(), &self.name, AtFlags::SYMLINK_NOFOLLOW);
        if found.is_ok_and(|found| identity(&found) == self.identity) {
            // If it cannot be removed, the next daemon finds that nobody answers.
            let _ = unlinkat(self.directory.fd(), &self.name, AtFlags::empty());
        }
    }
}

fn identity(file: &Stat) -> (u64, u64) {
    (file.st_dev, file.st_ino)
}

/// Removes a socket that nobody answers. The lock is held, so no daemon of ours is just starting here.
fn remove_stale(directory: &RuntimeDir, name: &OsStr, path: &Path) -> io::Result<()> {
    let found = match statat(directory.fd(), name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(found) => found,
        Err(Errno::NOENT) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    if FileType::from_raw_mode(found.st_mode) != FileType::Socket {
        let text =
            format!("{}: expected a socket or nothing, got another kind of file; remove it", path.display());
        return Err(io::Error::new(ErrorKind::AlreadyExists, text));
    }
    match UnixStream::connect(path) {
        Ok(stream) => {
            let pid =
                socket_peercred(&stream).ok().map(|peer| peer.pid.as_raw_nonzero().get().unsigned_abs());
            Err(already_running(directory.path(), pid))
        }
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
            Ok(unlinkat(directory.fd(), name, AtFlags::empty())?)
        }
        // Gone meanwhile.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => {
            Err(io::Error::new(error.kind(), format!("{}: cannot ask who listens: {error}", path.display())))
        }
    }
}
