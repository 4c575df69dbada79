//! What the clock on the wall showed at a moment of the steady clock.
//!
//! Everything is measured by the steady clock, since the other one may be set at any time. People and traces
//! want the date, though: it is the steady clock's reading plus a difference, which is looked at every
//! second and corrected when the clock on the wall was set. So a date costs no look at a second clock, and
//! tasks that come one after the other have dates in the same order.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The clocks drift apart by far less in a second; a larger difference means that one was set.
const DRIFT_MAX: Duration = Duration::from_millis(10);

#[derive(Debug)]
pub(crate) struct Wall {
    started_at: Instant,
    /// The Unix time of `started_at` in nanoseconds, as it is known by now.
    started_ns: AtomicU64,
}

impl Wall {
    pub(crate) fn new() -> Self {
        Self::of(Instant::now(), SystemTime::now())
    }

    fn of(now: Instant, wall: SystemTime) -> Self {
        Self { started_at: now, started_ns: AtomicU64::new(unix_ns(wall)) }
    }

    /// The Unix time of a moment, in nanoseconds.
    pub(crate) fn unix_ns(&self, at: Instant) -> u64 {
        self.started_ns
            .load(Relaxed)
            .saturating_add(nanoseconds(at.saturating_duration_since(self.started_at)))
    }

    /// Looks whether the clock on the wall was set.
    pub(crate) fn correct(&self) {
        self.correct_to(Instant::now(), SystemTime::now());
    }

    fn correct_to(&self, now: Instant, wall: SystemTime) {
        let (shown, known) = (unix_ns(wall), self.unix_ns(now));
        if shown.abs_diff(known) > nanoseconds(DRIFT_MAX) {
            let since = nanoseconds(now.saturating_duration_since(self.started_at));
            self.started_ns.store(shown.saturating_sub(since), Relaxed);
        }
    }
}

fn unix_ns(wall: SystemTime) -> u64 {
    // A clock that stands before 1970 is wrong in any case.
    nanoseconds(wall.duration_since(UNIX_EPOCH).unwrap_or_default())
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_follow_the_steady_clock_until_the_other_one_is_set() {
        let (now, date) = (Instant::now(), UNIX_EPOCH + Duration::from_secs(1000));
        let second = Duration::from_secs(1);
        let wall = Wall::of(now, date);
        assert_eq!(wall.unix_ns(now + second), 1_001_000_000_000);
        wall.correct_to(now + second, date + second + DRIFT_MAX);
        assert_eq!(wall.unix_ns(now + second), 1_001_000_000_000, "that is drift");
        wall.correct_to(now + second, date + 100 * second);
        assert_eq!(wall.unix_ns(now + second), 1_100_000_000_000, "that was somebody's hand");
        assert_eq!(wall.unix_ns(now), 1_099_000_000_000);
    }
}
