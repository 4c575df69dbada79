//! A bell: how one thread wakes another that waits for file descriptors.
//!
//! Whoever keeps a process waits for its pipes and for news from other threads at once, and the kernel can
//! wait for both only if the news is a file descriptor too. Ringing twice before anybody listens is ringing
//! once: the news itself is kept elsewhere, under a lock.

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::{Errno, read, write};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::thread;
use std::time::{Duration, Instant};

/// Wakes the thread that waits for it.
#[derive(Debug)]
pub(super) struct Bell(OwnedFd);

impl Bell {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// Never waits.
    pub(super) fn ring(&self) {
        // It fails only if the count is at its end, and then it rings already.
        let _ = write(&self.0, &1_u64.to_ne_bytes());
    }

    /// Has to come before the news is looked at, or a ring in between would be forgotten.
    pub(super) fn silence(&self) {
        let _ = read(&self.0, &mut [0_u8; 8]);
    }

    /// Waits until it rings, at most until then, and silences it.
    pub(super) fn wait(&self, until: Option<Instant>) {
        if poll_until(&mut [PollFd::new(&self.0, PollFlags::IN)], until).is_err() {
            // The kernel has no memory to wait with. Whoever comes back at once would only make it worse.
            thread::sleep(Duration::from_millis(10));
        }
        self.silence();
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Waits until one of `fds` is ready or the time has come.
pub(super) fn poll_until(fds: &mut [PollFd<'_>], until: Option<Instant>) -> io::Result<()> {
    loop {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        // A wait that is too long for the kernel is as good as one without an end.
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        match poll(fds, left.as_ref()) {
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
            Ok(_) => return Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_bell_that_rang_before_anybody_listened_is_still_heard_once() {
        let bell = Bell::new().unwrap();
        bell.ring();
        bell.ring();
        bell.wait(None);
        let mut fds = [PollFd::new(&bell, PollFlags::IN)];
        poll_until(&mut fds, Some(Instant::now())).unwrap();
        assert!(fds[0].revents().is_empty(), "it is silent");
    }

    #[test]
    fn a_bell_wakes_another_thread() {
        let bell = Arc::new(Bell::new().unwrap());
        let waiter = Arc::clone(&bell);
        let thread = thread::spawn(move || waiter.wait(None));
        bell.ring();
        thread.join().unwrap();
    }
}
