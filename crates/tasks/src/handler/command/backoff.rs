//! How long a program that crashed stays down before it is started again.
//!
//! The pause doubles with each crash in a row, so that a program which cannot live costs little, and a random
//! part of it is left out, so that processes which crashed together do not come back together. A task that
//! was answered shows that the program can live, and the next crash counts as the first.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// Counts crashes in a row.
#[derive(Debug)]
pub(super) struct Backoff {
    min: Duration,
    max: Duration,
    crashes: u32,
}

impl Backoff {
    pub(super) fn new(min: Duration, max: Duration) -> Self {
        Self { min, max: max.max(min), crashes: 0 }
    }

    /// It crashed: how long it stays down.
    pub(super) fn crashed(&mut self) -> Duration {
        self.pause(RandomState::new().hash_one(self.crashes))
    }

    /// It answered.
    pub(super) fn answered(&mut self) {
        self.crashes = 0;
    }

    /// From `min` to twice `min` after the first crash, and always between the upper half of what doubling
    /// gives and all of it.
    fn pause(&mut self, random: u64) -> Duration {
        self.crashes = self.crashes.saturating_add(1);
        let most = self.min.saturating_mul(1 << self.crashes.min(30)).min(self.max);
        let least = (most / 2).max(self.min);
        least + (most - least).mul_f64(random as f64 / u64::MAX as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIN: Duration = Duration::from_millis(100);
    const MAX: Duration = Duration::from_secs(1);

    /// The shortest and the longest pauses after so many crashes in a row.
    fn pauses(random: u64) -> Vec<u128> {
        let mut backoff = Backoff::new(MIN, MAX);
        (0..6).map(|_| backoff.pause(random).as_millis()).collect()
    }

    #[test]
    fn pauses_double_up_to_the_limit() {
        assert_eq!(pauses(0), [100, 200, 400, 500, 500, 500]);
        assert_eq!(pauses(u64::MAX), [200, 400, 800, 1000, 1000, 1000]);
    }

    #[test]
    fn an_answer_makes_the_next_crash_the_first() {
        let mut backoff = Backoff::new(MIN, MAX);
        for _ in 0..1000 {
            assert!((MIN..=MAX).contains(&backoff.crashed()));
        }
        backoff.answered();
        assert_eq!(backoff.pause(0), MIN);
    }

    #[test]
    fn equal_limits_leave_nothing_to_chance() {
        let mut backoff = Backoff::new(MAX, MAX);
        assert_eq!((backoff.crashed(), backoff.crashed()), (MAX, MAX));
    }
}
