//! How many tasks came to which end, and the line that says so.
//!
//! Failures are counted by their names, so that a person sees at once whether a thousand of them are one
//! mistake.

use crate::units::{grouped, time};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Instant;

#[derive(Debug)]
pub(super) struct Counts {
    begun: Instant,
    pub(super) sent: u64,
    /// As far as was asked for: accepted, or ended well.
    pub(super) done: u64,
    /// Refused because the daemon takes nothing. They are among the failed too.
    pub(super) refused: u64,
    /// Accepted, but the queue had them already.
    pub(super) duplicates: u64,
    failed: BTreeMap<String, u64>,
}

impl Counts {
    pub(super) fn new() -> Self {
        Self { begun: Instant::now(), sent: 0, done: 0, refused: 0, duplicates: 0, failed: BTreeMap::new() }
    }

    pub(super) fn failed(&mut self, error: &str) {
        *self.failed.entry(error.to_owned()).or_default() += 1;
    }

    pub(super) fn failures(&self) -> u64 {
        self.failed.values().sum()
    }

    /// `1 000 tasks in 1.23 s (813/s): 990 done, 10 failed: 7 handler-crashed, 3 timed-out`
    pub(super) fn sum(&self, waits: bool, left: usize) -> String {
        let elapsed = self.begun.elapsed();
        let rate = self.sent as f64 / elapsed.as_secs_f64().max(1e-9);
        let done = if waits { "done" } else { "accepted" };
        let mut sum = format!(
            "{} in {} ({}/s): {} {done}",
            tasks(self.sent),
            time(elapsed.as_nanos() as f64),
            grouped(rate as u64),
            grouped(self.done)
        );
        // Writing to a `String` cannot fail.
        if left > 0 {
            let _ = write!(sum, ", {} under way", grouped(left as u64));
        }
        if self.failures() > 0 {
            let kinds: Vec<_> =
                self.failed.iter().map(|(error, count)| format!("{} {error}", grouped(*count))).collect();
            let _ = write!(sum, ", {} failed: {}", grouped(self.failures()), kinds.join(", "));
        }
        sum
    }
}

/// What is said of tasks that were sent twice.
pub(super) fn were_there(count: u64) -> String {
    match count {
        1 => "the queue had this task already".to_owned(),
        several => format!("the queue had {} of them already", grouped(several)),
    }
}

/// `1 task`, `1 000 tasks`
pub(super) fn tasks(count: u64) -> String {
    if count == 1 { "1 task".to_owned() } else { format!("{} tasks", grouped(count)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_names_every_kind_of_failure() {
        let mut counts = Counts::new();
        counts.sent = 1003;
        counts.done = 1000;
        counts.failed("timed-out");
        counts.failed("handler-crashed");
        counts.failed("timed-out");
        let sum = counts.sum(true, 2);
        assert!(sum.starts_with("1 003 tasks in "), "{sum}");
        assert!(
            sum.ends_with(": 1 000 done, 2 under way, 3 failed: 1 handler-crashed, 2 timed-out"),
            "{sum}"
        );
        assert_eq!((tasks(1), tasks(2)), ("1 task".to_owned(), "2 tasks".to_owned()));
    }
}
