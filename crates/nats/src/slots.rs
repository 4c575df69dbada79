//! How many tasks a daemon holds at once: one for each worker, and beyond that only what is done within a blink.
//!
//! A task that is held waits for this daemon and for no other, so slow ones must not be hoarded; tiny ones must be,
//! or the workers would wait for the network between any two. The measure is the rate of ends: what will have ended
//! within `ahead` may be here already. The rate is that of short windows, and falls slowly, so that a pause costs no
//! speed.
//!
//! Not here: which lane is asked for how many (`pulls.rs`).

use std::time::Duration;

/// How long a window is.
pub(crate) const WINDOW: Duration = Duration::from_millis(50);
/// How long it is at least.
const WINDOW_MIN: Duration = Duration::from_millis(5);
/// What is left of the rate after a window in which nothing ended.
const KEPT: f64 = 0.8;

/// The measure.
#[derive(Debug)]
pub(crate) struct Slots {
    max: usize,
    ahead: Duration,
    /// Ends per second.
    rate: f64,
    ended: u64,
}

impl Slots {
    pub(crate) fn new(ahead: Duration, max: usize) -> Self {
        Self { max: max.max(1), ahead, rate: 0.0, ended: 0 }
    }

    /// A task has ended.
    pub(crate) fn has_ended(&mut self) {
        self.ended += 1;
    }

    /// Whether a window that has taken so long says enough already: several times what may be held has ended. So a
    /// daemon that wakes up to a full queue of tiny tasks needs some milliseconds and not some windows.
    pub(crate) fn is_early(&self, took: Duration, workers: usize) -> bool {
        took >= WINDOW_MIN && self.ended >= 4 * self.now(workers) as u64
    }

    /// Whether nothing has ended in the present window.
    pub(crate) fn is_idle(&self) -> bool {
        self.ended == 0
    }

    /// A window is over, which took so long.
    pub(crate) fn turn(&mut self, took: Duration) {
        let seconds = took.as_secs_f64().max(0.001);
        let present = self.ended as f64 / seconds;
        // A long window tells more, so less is kept of what was before.
        let kept = KEPT.powf((seconds / WINDOW.as_secs_f64()).min(50.0));
        self.rate = present.max(self.rate * kept);
        self.ended = 0;
    }

    /// How many tasks may be held.
    pub(crate) fn now(&self, workers: usize) -> usize {
        let ahead = (self.rate * self.ahead.as_secs_f64()).min(self.max as f64) as usize;
        (workers.max(1) + ahead).min(self.max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots() -> Slots {
        Slots::new(Duration::from_millis(50), 1024)
    }

    #[test]
    fn slow_tasks_are_not_hoarded() {
        let mut slots = slots();
        assert_eq!(slots.now(2), 2);
        for _ in 0..100 {
            slots.has_ended();
            slots.turn(Duration::from_secs(1));
        }
        assert_eq!(slots.now(2), 2, "one a second");
    }

    #[test]
    fn tiny_tasks_flow_and_have_a_limit() {
        let mut slots = slots();
        (0..100).for_each(|_| slots.has_ended());
        slots.turn(WINDOW);
        assert_eq!(slots.now(4), 104, "2000 a second, of which 100 in 50 ms");
        (0..1_000_000).for_each(|_| slots.has_ended());
        slots.turn(WINDOW);
        assert_eq!(slots.now(4), 1024);
    }

    #[test]
    fn a_full_queue_of_tiny_tasks_is_noticed_within_milliseconds() {
        let mut slots = slots();
        (0..7).for_each(|_| slots.has_ended());
        assert!(!slots.is_early(Duration::from_millis(5), 2) && !slots.is_idle());
        slots.has_ended();
        assert!(slots.is_early(Duration::from_millis(5), 2) && !slots.is_early(Duration::from_millis(4), 2));
        slots.turn(Duration::from_millis(5));
        assert_eq!(slots.now(2), 82, "1600 a second");
        assert!(slots.is_idle());
    }

    #[test]
    fn the_rate_is_forgotten_within_a_few_seconds() {
        let mut slots = slots();
        (0..1_000).for_each(|_| slots.has_ended());
        slots.turn(WINDOW);
        (0..60).for_each(|_| slots.turn(WINDOW));
        assert_eq!(slots.now(4), 4);
        (0..1_000).for_each(|_| slots.has_ended());
        slots.turn(WINDOW);
        slots.turn(Duration::from_secs(3));
        assert_eq!(slots.now(4), 4, "also if nobody looked meanwhile");
    }

    #[test]
    fn the_limit_holds_for_workers_too() {
        assert_eq!(Slots::new(Duration::ZERO, 3).now(16), 3);
        assert_eq!(Slots::new(Duration::ZERO, 3).now(0), 1);
    }
}
