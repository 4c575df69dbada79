//! Tells the door's thread that a file has changed: by inotify, or by looking every so often.
//!
//! One watch on the directory tells of every file in it by name: new bytes, renames, new files. Where the
//! system has no watch to give, or takes it back, the door looks at all files instead, every `poll_interval`.
//! That is also right, only later.
//!
//! Not here: what has changed in the file (`mailbox_file.rs`).

use super::bell::Bell;
use millpond_tasks::RuntimeDir;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;
use std::ffi::CStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

/// Room for many events, of which most are about one file.
const EVENTS_BYTES: usize = 8 << 10;

/// How the door learns of changes.
#[derive(Debug)]
pub(super) enum Watcher {
    /// The system tells.
    Inotify(OwnedFd),
    /// It does not.
    Polling,
}

/// What may have changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Changed {
    /// The mailbox of this worker, from 1.
    Mailbox(usize),
    /// Perhaps everything.
    Everything,
    /// Perhaps everything, and the system will not tell any more.
    Blind,
}

impl Watcher {
    /// Watches a directory, or says why the system will not.
    pub(super) fn inotify(directory: &RuntimeDir) -> io::Result<Self> {
        let file = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        let what = WatchFlags::MODIFY
            | WatchFlags::CREATE
            | WatchFlags::MOVED_FROM
            | WatchFlags::MOVED_TO
            | WatchFlags::DELETE
            | WatchFlags::DELETE_SELF
            | WatchFlags::ONLYDIR;
        // The directory that was checked, whatever stands at its path by now.
        inotify::add_watch(&file, format!("/proc/self/fd/{}", directory.fd().as_raw_fd()), what)?;
        Ok(Self::Inotify(file))
    }

    /// Waits until a file changes or the bell rings, so long at most; for ever without a `timeout`.
    pub(super) fn wait(&self, bell: &Bell, timeout: Option<Duration>) -> io::Result<()> {
        let timeout = timeout.map(|timeout| Timespec {
            tv_sec: timeout.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        });
        let bell = PollFd::from_borrowed_fd(bell.file(), PollFlags::IN);
        let waited = match self {
            Self::Inotify(file) => {
                poll(&mut [bell, PollFd::from_borrowed_fd(file.as_fd(), PollFlags::IN)], timeout.as_ref())
            }
            Self::Polling => poll(&mut [bell], timeout.as_ref()),
        };
        match waited {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Tells `tell` of every change since the last call. Says nothing if it cannot know.
    pub(super) fn changes(&self, mut tell: impl FnMut(Changed)) {
        let Self::Inotify(file) = self else { return };
        let mut buffer = [MaybeUninit::uninit(); EVENTS_BYTES];
        let mut events = inotify::Reader::new(file, &mut buffer);
        loop {
            match events.next() {
                Ok(event) => {
                    if let Some(changed) = meaning(event.events(), event.file_name()) {
                        tell(changed);
                    }
                }
                Err(Errno::WOULDBLOCK) => return,
                Err(Errno::INTR) => (),
                Err(_) => return tell(Changed::Blind),
            }
        }
    }
}

fn meaning(events: ReadFlags, name: Option<&CStr>) -> Option<Changed> {
    if events.intersects(ReadFlags::IGNORED | ReadFlags::UNMOUNT) {
        return Some(Changed::Blind);
    }
    if events.contains(ReadFlags::QUEUE_OVERFLOW) {
        return Some(Changed::Everything);
    }
    worker_of(name?.to_str().ok()?).map(Changed::Mailbox)
}

/// Whose mailbox file has this name, or had it before it was put aside as `mailbox-1.json.1` or the like.
pub(super) fn worker_of(name: &str) -> Option<usize> {
    let rest = name.strip_prefix("mailbox-")?;
    let digits = rest.find(|letter: char| !letter.is_ascii_digit())?;
    let (number, rest) = rest.split_at(digits);
    if rest.starts_with(".json") { number.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_whose_mailbox_it_is() {
        for (name, worker) in [
            ("mailbox-1.json", Some(1)),
            ("mailbox-12.json", Some(12)),
            ("mailbox-3.json.1", Some(3)),
            ("mailbox-3.json-20260101.gz", Some(3)),
            ("mailbox-3.results.json", None),
            ("mailbox-3.offset", None),
            ("mailbox-.json", None),
            ("mailbox-x.json", None),
            ("control.sock", None),
        ] {
            assert_eq!(worker_of(name), worker, "{name}");
        }
    }
}
