//! Waiting for what must come to pass, instead of for a while.
//!
//! The deadline is there to turn a hang into a failure with words; no test depends on how long anything takes.

use std::fs;
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

const DEADLINE: Duration = Duration::from_secs(30);

/// Waits until `condition` holds; fails with `what` if it does not within half a minute.
pub(crate) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Deadline::new(what);
    while !condition() {
        deadline.idle();
    }
}

/// For loops that end only if nothing was lost.
#[derive(Clone, Copy)]
pub(crate) struct Deadline<'a> {
    what: &'a str,
    start: Instant,
}

impl<'a> Deadline<'a> {
    /// Half a minute from now.
    pub(crate) fn new(what: &'a str) -> Self {
        Self { what, start: Instant::now() }
    }

    /// Lets others run, and fails if it is too late.
    pub(crate) fn idle(&self) {
        assert!(self.start.elapsed() < DEADLINE, "not within {} s: {}", DEADLINE.as_secs(), self.what);
        thread::yield_now();
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
