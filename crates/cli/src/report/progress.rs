//! The bar: how far a file of requests has come, or the one task that says how far it is.
//!
//! It is on standard error, and only if that is a terminal; in a pipe or a log it would be noise.

use super::Counts;
use crate::units::grouped;
use indicatif::{ProgressBar, ProgressStyle};

/// A task's progress is shown in so many steps.
const STEPS: u64 = 1000;

#[derive(Debug)]
pub(super) struct Progress {
    bar: ProgressBar,
    is_one: bool,
}

impl Progress {
    pub(super) fn new(is_one: bool, bytes: Option<u64>) -> Self {
        // One task may never say how far it is; then there is nothing to show.
        let bar = match (is_one, bytes) {
            (true, _) => ProgressBar::hidden(),
            (false, Some(bytes)) => styled(ProgressBar::new(bytes), "{wide_bar} {percent:>3} %  {msg}"),
            (false, None) => styled(ProgressBar::no_length(), "{spinner} {msg}"),
        };
        Self { bar, is_one }
    }

    pub(super) fn sent(&self, bytes: usize) {
        // A line has an end, too.
        self.bar.inc(bytes as u64 + 1);
    }

    /// How far the one task is, 0 to 1.
    pub(super) fn of_task(&mut self, fraction: f64) {
        if !self.is_one {
            return;
        }
        if self.bar.is_hidden() {
            self.bar = styled(ProgressBar::new(STEPS), "{wide_bar} {percent:>3} %");
        }
        self.bar.set_position((fraction.clamp(0.0, 1.0) * STEPS as f64) as u64);
    }

    pub(super) fn show(&self, counts: &Counts) {
        if !self.is_one && !self.bar.is_hidden() {
            let failed = match counts.failures() {
                0 => String::new(),
                failures => format!(", {} failed", grouped(failures)),
            };
            self.bar.set_message(format!("{} done{failed}", grouped(counts.done)));
        }
    }

    /// Does something that prints, without the bar in its way.
    pub(super) fn aside<T>(&self, act: impl FnOnce() -> T) -> T {
        self.bar.suspend(act)
    }

    pub(super) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

/// A template that could not be read would be a mistake here; the usual bar will do then.
fn styled(bar: ProgressBar, template: &str) -> ProgressBar {
    bar.with_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()))
}
