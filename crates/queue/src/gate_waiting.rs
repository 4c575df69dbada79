//! How a caller of a gate waits: it looks again a few times, offering its processor in between, and then sleeps.
//!
//! Not here: the sleep itself (`gate.rs`), lingering after a success (`cursor.rs`).

use crate::cursor::Cursor;
use core::time::Duration;
use std::time::Instant;

/// How long a caller waits.
#[derive(Clone, Copy)]
pub(crate) enum Until {
    Now,
    Deadline(Instant),
    Forever,
}

/// What a blocked caller does next.
pub(crate) enum Next {
    LookAgain,
    GiveUp,
    /// Sleep, until this time at most.
    Sleep(Option<Instant>),
}

/// One caller's wait: it looks again a few times, offering its processor in between, then sleeps.
pub(crate) struct Waiting {
    looks_left: u32,
    until: Until,
    /// How long it lingers if it does not wait.
    pauses_now: u32,
}

impl Waiting {
    /// How long a caller may linger (`cursor.rs`), in pauses of the processor: a producer that does not wait, and
    /// everybody else. A consumer lingers as long either way: where one is about as fast as its producer, short rests
    /// make both crawl.
    const PAUSES_NOW: u32 = 32;
    const PAUSES: u32 = 256;
    /// Between two looks of one who waits.
    const PAUSES_LOOK: u32 = 64;

    #[inline(always)]
    pub(crate) fn for_value(spins: u32, until: Until) -> Self {
        Self { looks_left: spins, until, pauses_now: Self::PAUSES }
    }

    #[inline(always)]
    pub(crate) fn for_room(spins: u32, until: Until) -> Self {
        Self { looks_left: spins, until, pauses_now: Self::PAUSES_NOW }
    }

    /// Gives the other side a moment, if that is likely to pay and the caller waits anyway.
    pub(crate) fn linger(&self, end: &Cursor, position: u64, gained: impl Fn() -> usize) {
        if !matches!(self.until, Until::Now) {
            end.lull.linger(position, Self::PAUSES, gained);
        }
    }

    /// `gained` counts what the other side has done meanwhile.
    #[cold]
    pub(crate) fn next(&mut self, end: &Cursor, position: u64, gained: impl Fn() -> usize) -> Next {
        let limit = match self.until {
            Until::Now if end.lull.linger(position, self.pauses_now, &gained) => return Next::LookAgain,
            Until::Now => return Next::GiveUp,
            Until::Deadline(deadline) if Instant::now() >= deadline => return Next::GiveUp,
            Until::Deadline(deadline) => Some(deadline),
            Until::Forever => None,
        };
        if self.looks_left == 0 || cfg!(any(loom, shuttle)) {
            return Next::Sleep(limit);
        }
        if end.lull.linger(position, Self::PAUSES, &gained) {
            return Next::LookAgain;
        }
        // Whoever is waited for may lack a processor: offer this one before each spell of pauses.
        self.looks_left -= 1;
        if self.looks_left % 2 == 1 {
            crate::sync::yield_now();
        } else {
            for _ in 0..Self::PAUSES_LOOK {
                crate::sync::spin_loop();
            }
        }
        Next::LookAgain
    }

    /// After a wake-up one look follows, and sleep again if that is in vain; when time ran out, one last look.
    pub(crate) fn slept(&mut self, woken: bool) {
        if !woken {
            self.until = Until::Deadline(Instant::now());
        }
    }
}

pub(crate) fn until(timeout: Duration) -> Until {
    // A time-out past the end of the clock is no time-out.
    Instant::now().checked_add(timeout).map_or(Until::Forever, Until::Deadline)
}
