//! The progress bar, and the place where a run asks whether Ctrl-C was pressed.
//!
//! The bar is on standard error, and only if that is a terminal; in a pipe or a log it would be noise.

use crate::interrupt;
use indicatif::{ProgressBar, ProgressStyle};
use millpond_sim::Watch;
use std::ops::ControlFlow;

/// How far all runs together have come.
#[derive(Debug)]
pub(super) struct Progress {
    bar: ProgressBar,
    tasks: u64,
    /// Tasks of the runs that are over.
    before: Option<u64>,
}

impl Progress {
    pub(super) fn new(tasks: u64, runs: usize) -> Self {
        let style = "{msg:22} {wide_bar} {percent:>3} %  {eta} left";
        // Draws nothing where standard error is no terminal. A template that could not be read would be a mistake here;
        // the usual bar will do then.
        let style = ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar());
        Self { bar: ProgressBar::new(tasks * runs as u64).with_style(style), tasks, before: None }
    }

    /// The next run begins.
    pub(super) fn begin(&mut self, strategy: &str) {
        self.before = Some(self.before.map_or(0, |before| before + self.tasks));
        self.bar.set_message(strategy.to_owned());
    }
}

impl Watch for Progress {
    fn progress(&mut self, arrived: u64) -> ControlFlow<()> {
        self.bar.set_position(self.before.unwrap_or(0) + arrived);
        if interrupt::is_pressed() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

impl Drop for Progress {
    /// What is printed next should not stand behind half a bar.
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
