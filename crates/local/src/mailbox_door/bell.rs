//! Wakes the door's thread: one system call for any number of reasons that come before it has woken.
//!
//! Whoever has done something for the thread rings. Only the first to ring since the thread last listened
//! writes to the file that the thread waits for. The thread empties the file first, then takes the mark back,
//! then looks around: whoever rang before that has put down what it rang for, and whoever rings after it
//! writes again. (The other way round, a ring between the two steps would leave a mark and no byte, and
//! nobody would ever be woken again.)
//!
//! Not here: what there is to look at.

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{read, write};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering::AcqRel};

/// The bell of one thread.
#[derive(Debug)]
pub(super) struct Bell {
    rung: AtomicBool,
    file: OwnedFd,
}

impl Bell {
    pub(super) fn new() -> io::Result<Self> {
        let file = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { rung: AtomicBool::new(false), file })
    }

    /// Wakes the thread, now or when it next goes to sleep.
    pub(super) fn ring(&self) {
        // Release: what was done before is seen by the thread that takes the mark back. Every ring is part of
        // that chain, also one that finds the mark set.
        if !self.rung.swap(true, AcqRel) {
            // A full counter wakes as well, and nothing else can go wrong with a file of our own.
            let _ = write(&self.file, &1_u64.to_ne_bytes());
        }
    }

    /// Makes ready for the next ring. What to do is looked up after this.
    pub(super) fn listen(&self) {
        let mut count = [0; 8];
        // Empty if a ringer has marked and not yet written: then it wakes the thread once for nothing.
        let _ = read(&self.file, &mut count);
        self.rung.swap(false, AcqRel);
    }

    /// What to wait for.
    pub(super) fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
