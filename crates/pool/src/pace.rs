//! How long one worker's tasks take, for strategies that want to know: in total, each, and whether it is at one now.
//!
//! A worker reads the clock twice for every task only while such a strategy is in force. It is the only writer; whoever
//! chooses workers reads.

use crate::counters::bump;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The newest task counts this much in the mean: one of so many.
const SMOOTHED_OVER: u64 = 8;

#[derive(Debug, Default)]
pub(crate) struct Pace {
    run_total_ns: AtomicU64,
    run_mean_ns: AtomicU64,
    /// When the present task began, in nanoseconds since the pool's start, and one more; 0 if none is timed.
    began: AtomicU64,
    /// When it last became idle, in nanoseconds since the pool's start.
    idle_since_ns: AtomicU64,
}

impl Pace {
    pub(crate) fn begin(&self, now_ns: u64) {
        self.began.store(now_ns + 1, Relaxed);
    }

    /// The task that began last has ended.
    pub(crate) fn end(&self, now_ns: u64) {
        let began_ns = self.began.load(Relaxed).saturating_sub(1);
        let ran_ns = now_ns.saturating_sub(began_ns);
        bump(&self.run_total_ns, ran_ns);
        let mean_ns = self.run_mean_ns.load(Relaxed);
        // A mean of nothing stands for "not known".
        let next_ns =
            if mean_ns == 0 { ran_ns } else { mean_ns - mean_ns / SMOOTHED_OVER + ran_ns / SMOOTHED_OVER };
        self.run_mean_ns.store(next_ns.max(1), Relaxed);
        self.began.store(0, Relaxed);
    }

    /// How long it has run tasks, with the present one so far.
    pub(crate) fn run_total_ns(&self, now_ns: u64) -> u64 {
        let began = self.began.load(Relaxed);
        let present_ns = if began == 0 { 0 } else { (now_ns + 1).saturating_sub(began) };
        self.run_total_ns.load(Relaxed) + present_ns
    }

    /// How long it has run tasks that have ended. It never goes back.
    pub(crate) fn ended_ns(&self) -> u64 {
        self.run_total_ns.load(Relaxed)
    }

    /// How long its tasks take, smoothed; 0 if that is not known.
    pub(crate) fn run_mean_ns(&self) -> u64 {
        self.run_mean_ns.load(Relaxed)
    }

    pub(crate) fn note_idle(&self, now_ns: u64) {
        self.idle_since_ns.store(now_ns, Relaxed);
    }

    pub(crate) fn idle_since_ns(&self) -> u64 {
        self.idle_since_ns.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_count_the_present_task_and_the_mean_follows_the_last_ones() {
        let pace = Pace::default();
        pace.begin(100);
        assert_eq!((pace.run_total_ns(130), pace.run_mean_ns()), (30, 0));
        pace.end(180);
        assert_eq!((pace.run_total_ns(500), pace.run_mean_ns()), (80, 80));
        pace.begin(500);
        pace.end(500 + 160);
        assert_eq!((pace.run_total_ns(900), pace.run_mean_ns()), (240, 90));
    }
}
