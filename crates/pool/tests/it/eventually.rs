//! Waiting for what must come to pass, instead of for a while.
//!
//! The deadline is there to turn a hang into a failure with words; no test depends on how long anything takes.

use std::fs;
use std::panic::resume_unwind;
use std::sync::OnceLock;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// Far beyond what anything here takes.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// Waits until `condition` holds; fails with `what` if it does not within half a minute.
pub(crate) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < DEADLINE, "not within {} s: {what}", DEADLINE.as_secs());
        thread::yield_now();
    }
}

/// Runs a test that would hang if its promise were broken; fails with `what` if it is not over within half a minute.
pub(crate) fn promptly<R: Send + 'static>(what: &str, body: impl FnOnce() -> R + Send + 'static) -> R {
    let (done, told) = mpsc::channel();
    let thread = thread::spawn(move || {
        let result = body();
        // Nobody listens any more if it took too long.
        let _ = done.send(result);
    });
    match told.recv_timeout(DEADLINE) {
        Ok(result) => result,
        Err(RecvTimeoutError::Timeout) => panic!("hangs for {} s: {what}", DEADLINE.as_secs()),
        Err(RecvTimeoutError::Disconnected) => match thread.join() {
            Err(panic) => resume_unwind(panic),
            Ok(()) => unreachable!("a body that ends without a panic tells its result"),
        },
    }
}

/// Whether one thread sleeps, as the kernel sees it. The thread says when it is about to, and where to look.
#[derive(Default)]
pub(crate) struct Sleeper(OnceLock<Option<String>>);

impl Sleeper {
    /// To be called by the thread itself, directly before the call that may sleep.
    pub(crate) fn about_to_sleep(&self) {
        let state = fs::read_link("/proc/thread-self").map(|task| format!("/proc/{}/stat", task.display()));
        self.0.get_or_init(|| state.ok());
    }

    /// Whether the thread is asleep by now. Where the kernel does not tell, being about to sleep has to do.
    pub(crate) fn is_asleep(&self) -> bool {
        let Some(state) = self.0.get() else { return false };
        let Some(text) = state.as_ref().and_then(|path| fs::read_to_string(path).ok()) else { return true };
        // The state is the first field after the name, which stands in brackets and may itself hold some.
        text.rsplit_once(") ").is_some_and(|(_, fields)| fields.starts_with('S'))
    }
}
