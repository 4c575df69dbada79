//! What is left while the daemon drains: one line that changes, on a terminal; a few lines in a log.
//!
//! Whoever pressed Ctrl-C wants to know whether to wait or to press it again.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use millpond_tasks::Log;
use std::io::{self, IsTerminal};
use std::time::Duration;

/// In a log every fifth second is worth a line.
const LOG_EVERY_SECONDS: u64 = 5;

/// Shows how many tasks are left and for how long.
#[derive(Debug)]
pub(super) struct Countdown<'a> {
    bar: Option<ProgressBar>,
    log: &'a Log,
    said: Option<u64>,
}

impl<'a> Countdown<'a> {
    pub(super) fn new(log: &'a Log) -> Self {
        let bar = io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{spinner} {msg}").expect("the template is well formed");
            ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()).with_style(style)
        });
        Self { bar, log, said: None }
    }

    /// So many tasks are left, and so much time.
    pub(super) fn show(&mut self, tasks: usize, left: Duration) {
        let seconds = left.as_secs_f64().ceil() as u64;
        let noun = if tasks == 1 { "task" } else { "tasks" };
        if let Some(bar) = &self.bar {
            bar.set_message(format!(
                "draining: {tasks} {noun} left, {seconds} s to go; Ctrl-C again stops at once"
            ));
            bar.tick();
            return;
        }
        let turn = seconds / LOG_EVERY_SECONDS;
        if self.said != Some(turn) {
            self.said = Some(turn);
            self.log.info(&format!("draining: {tasks} {noun} left, {seconds} s to go"));
        }
    }

    /// Takes the line away.
    pub(super) fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
