//! How somebody looks around who expects more: at once again for a microsecond, then giving way in between.
//!
//! A wake-up costs more than what is usually waited for, so nobody sleeps at once. But both sides may find themselves
//! on one processor, and then whoever spins keeps the other from answering; so after a moment each look is followed by
//! an offer to let somebody else run.

use std::hint::spin_loop;
use std::thread;
use std::time::{Duration, Instant};

/// How long one looks without giving way.
const SPIN: Duration = Duration::from_micros(1);

/// Since when nothing has come.
#[derive(Debug, Default)]
pub(crate) struct Linger {
    since: Option<Instant>,
}

impl Linger {
    /// Something came.
    pub(crate) fn reset(&mut self) {
        self.since = None;
    }

    /// Nothing came: pauses for a moment. False if it is time to sleep.
    pub(crate) fn pause(&mut self, now: Instant, at_most: Duration) -> bool {
        let idle = now.saturating_duration_since(*self.since.get_or_insert(now));
        if idle >= at_most {
            return false;
        }
        if idle < SPIN {
            spin_loop();
        } else {
            thread::yield_now();
        }
        true
    }
}
