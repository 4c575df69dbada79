//! How a caller of a gate waits: it looks again a few times, offering its processor in between, and then sleeps.
//!
//! Not here: the sleep itself (`gate.rs`), lingering after a success (`cursor.rs`).

use crate::cursor::Cursor;
use core::time::Duration;
use std::sync::OnceLock;
use std::time::Instant;

/// How long a caller waits.
#[derive(Clone, Copy)]
pub(crate) enum Until {
    Now,
    Deadline(Instant),
    Forever,
}

/// The longest lingering of those who may.
const LINGER_MAX: Duration = Duration::from_nanos(3500);

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
    /// How long it lingers if it waits, and if it does not.
    pauses: u32,
    pauses_now: u32,
}

impl Waiting {
    /// How long a producer that does not wait may linger (`cursor.rs`), in pauses of the processor. Everybody else may
    /// for [`LINGER_MAX`]: where a consumer is about as fast as its producer, short rests make both crawl.
    const PAUSES_NOW: u32 = 32;
    /// Between two looks of one who waits.
    const PAUSES_LOOK: u32 = 64;

    #[inline(always)]
    pub(crate) fn for_value(spins: u32, until: Until) -> Self {
        let pauses = pauses_max();
        Self { looks_left: spins, until, pauses, pauses_now: pauses }
    }

    #[inline(always)]
    pub(crate) fn for_room(spins: u32, until: Until) -> Self {
        Self { looks_left: spins, until, pauses: pauses_max(), pauses_now: Self::PAUSES_NOW }
    }

    /// Gives the other side a moment, if that is likely to pay and the caller waits anyway.
    pub(crate) fn linger(&self, end: &Cursor, position: u64, gained: impl Fn() -> usize) {
        if !matches!(self.until, Until::Now) {
            end.lull.linger(position, self.pauses, gained);
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
        if end.lull.linger(position, self.pauses, &gained) {
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

/// How many pauses of the processor last for [`LINGER_MAX`]: one takes 13 ns on some, and 45 on others.
fn pauses_max() -> u32 {
    static PAUSES: OnceLock<u32> = OnceLock::new();
    *PAUSES.get_or_init(measure_pauses_max)
}

#[cold]
fn measure_pauses_max() -> u32 {
    const PAUSES: u32 = 16;
    let time = || {
        let started = Instant::now();
        for _ in 0..PAUSES {
            core::hint::spin_loop();
        }
        started.elapsed()
    };
    // Whoever is interrupted measures too long a time.
    let least = (0..8).map(|_| time()).min().unwrap_or_default();
    let pauses = LINGER_MAX.as_nanos() * u128::from(PAUSES) / least.as_nanos().max(1);
    pauses.clamp(32, 512) as u32
}

pub(crate) fn until(timeout: Duration) -> Until {
    // A time-out past the end of the clock is no time-out.
    Instant::now().checked_add(timeout).map_or(Until::Forever, Until::Deadline)
}
