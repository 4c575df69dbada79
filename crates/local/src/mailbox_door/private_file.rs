//! Opens files of the private directory, and no others: no links, no devices, nothing of another user.
//!
//! The directory keeps strangers out. This keeps mistakes out: a link that somebody put there to join two
//! places, a pipe on which a read would wait for ever, a file that root left behind. The file is checked
//! after it is open, so it cannot be exchanged between the check and the use.
//!
//! Not here: the directory itself (`millpond_tasks::RuntimeDir`).

use millpond_tasks::RuntimeDir;
use rustix::fs::{FileType, Mode, OFlags, Stat, fstat, openat};
use rustix::io::Errno;
use rustix::process::geteuid;
use std::fs::File;
use std::io::{self, ErrorKind};

/// Opens `name` in `directory`. If it is made, nobody else may read it.
pub(super) fn open(directory: &RuntimeDir, name: &str, flags: OFlags) -> io::Result<File> {
    // Without waiting, because a pipe without a writer would; files do not mind.
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let refuse = |kind, got: &str| {
        let path = directory.path().join(name);
        let own = geteuid().as_raw();
        let text = format!("{}: expected a file of user {own}, got {got}; remove it", path.display());
        io::Error::new(kind, text)
    };
    let file = openat(directory.fd(), name, flags, Mode::RUSR | Mode::WUSR).map_err(|error| match error {
        Errno::LOOP => refuse(ErrorKind::PermissionDenied, "a link"),
        Errno::ISDIR => refuse(ErrorKind::PermissionDenied, "a directory"),
        Errno::NXIO => refuse(ErrorKind::PermissionDenied, "a pipe or a socket"),
        error => {
            let error = io::Error::from(error);
            io::Error::new(error.kind(), format!("{}: {error}", directory.path().join(name).display()))
        }
    })?;
    let found = fstat(&file)?;
    if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
        return Err(refuse(ErrorKind::PermissionDenied, "something else"));
    }
    if found.st_uid != geteuid().as_raw() {
        return Err(refuse(ErrorKind::PermissionDenied, &format!("one of user {}", found.st_uid)));
    }
    Ok(File::from(file))
}

/// Which file it is, among all of this machine that exist now.
pub(super) fn identity(file: &File) -> io::Result<(u64, u64)> {
    Ok(identity_of(&fstat(file)?))
}

/// The same, from what the system told about it.
pub(super) fn identity_of(found: &Stat) -> (u64, u64) {
    (found.st_dev, found.st_ino)
}
