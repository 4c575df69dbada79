//! How much a pool does in a second: over the time since a picture that is at least a second old.
//!
//! A shorter time would make the number jump, and a longer one would make it old. So two pictures are remembered: the
//! last one that others were compared with, and the one that the next will be once it is old enough. Whoever asks
//! shares them with all others who ask.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// From this age on a picture is compared with.
const OLD_ENOUGH: Duration = Duration::from_secs(1);

/// How many tasks had run, and when.
#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    at: Duration,
    tasks: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Rate(Mutex<Marks>);

#[derive(Debug, Default)]
struct Marks {
    /// Older than the other by `OLD_ENOUGH` at least, or both are the start.
    before: Mark,
    last: Mark,
}

impl Rate {
    /// How many tasks ran in a second, when so many had run at `now`, counted from the start.
    pub(super) fn per_second(&self, now: Duration, tasks: u64) -> f64 {
        let mut marks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut since = marks.before;
        if now.saturating_sub(marks.last.at) >= OLD_ENOUGH {
            since = marks.last;
            *marks = Marks { before: since, last: Mark { at: now, tasks } };
        }
        let (ran, passed) = (tasks.saturating_sub(since.tasks), now.saturating_sub(since.at));
        if passed.is_zero() { 0.0 } else { ran as f64 / passed.as_secs_f64() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_over_at_least_a_second_and_since_the_start_before_that() {
        let rate = Rate::default();
        let ask = |ms, tasks| rate.per_second(Duration::from_millis(ms), tasks);
        assert_eq!(ask(0, 0), 0.0, "no time has passed");
        assert_eq!(ask(500, 100), 200.0, "since the start");
        assert_eq!(ask(2000, 1000), 500.0, "since the start, and from here on this is remembered");
        assert_eq!(ask(2500, 1000), 400.0, "the last one is too young, so it is still since the start");
        assert_eq!(ask(3000, 1700), 700.0, "since the one at 2 s, and this is remembered");
        assert_eq!(ask(3500, 1700), 700.0 / 1.5, "since the one at 2 s");
        assert_eq!(ask(13_000, 1700), 0.0, "nothing ran for ten seconds");
    }

    #[test]
    fn pictures_that_overtake_each_other_give_no_negative_rate() {
        let rate = Rate::default();
        rate.per_second(Duration::from_secs(5), 100);
        rate.per_second(Duration::from_secs(7), 300);
        assert_eq!(rate.per_second(Duration::from_secs(6), 50), 0.0);
    }
}
