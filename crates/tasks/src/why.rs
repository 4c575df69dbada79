//! Why a task stands where it stands, as one sentence for somebody who waits for it.
//!
//! Each stage has its own reason: a time that has not come, workers that are busy, a process that is, an
//! attempt that runs, or an end. What a reason is made of is looked up when somebody asks and kept nowhere.
//!
//! Not here: why the pool gave a task to which worker, which the pool says itself.

use crate::error::TaskFailure;
use crate::outcome::Outcome;
use crate::request::TaskId;
use crate::service::ServiceHandle;
use crate::task::{Stage, State, Task};
use std::time::{Duration, Instant};

impl ServiceHandle {
    /// Why a task stands where it stands, as a sentence without a full stop.
    pub fn why(&self, id: &TaskId) -> Result<String, TaskFailure> {
        Ok(self.get(id)?.why())
    }
}

impl Task {
    /// Why it stands where it stands, as a sentence without a full stop.
    pub fn why(&self) -> String {
        let now = Instant::now();
        let state = self.lock();
        match state.stage {
            Stage::Delayed => format!("it asked for a delay, of which {} are left", time_left(&state, now)),
            Stage::Queued => self.why_queued(&state, now),
            Stage::Retrying => self.why_retrying(&state, now),
            Stage::Ended => self.outcome().map_or_else(String::new, how_it_ended),
            Stage::Running => {
                let running = self.why_running(&state, now);
                let attempt = self.nth(&state);
                // The handler has locks of its own.
                drop(state);
                match self.handler.handler.why_waiting(&self.id) {
                    Some(reason) => format!("{attempt} has begun, and {reason}"),
                    None => running,
                }
            }
        }
    }

    fn why_queued(&self, state: &State, now: Instant) -> String {
        let since = now.saturating_duration_since(state.queued_since.unwrap_or(self.accepted_at));
        let reason = match &state.ticket {
            Some(ticket) => self.shared.pool.why(ticket).to_string(),
            None => "it is about to be given to a worker".to_owned(),
        };
        format!("it has been queued for {}: {reason}", span(since))
    }

    fn why_retrying(&self, state: &State, now: Instant) -> String {
        let failed = state.tries.last();
        let error = failed.and_then(|failed| failed.error).unwrap_or("an error");
        let message = failed.and_then(|failed| failed.message.as_deref()).unwrap_or_default();
        format!(
            "{} failed with {error} ({message}); the next begins in {}",
            self.nth(state),
            time_left(state, now)
        )
    }

    fn why_running(&self, state: &State, now: Instant) -> String {
        let since = state.began_at.map_or(Duration::ZERO, |began| now.saturating_duration_since(began));
        let mut sentence = format!("{} has been running for {}", self.nth(state), span(since));
        if let Some(worker) = state.worker {
            sentence.push_str(&format!("; it began on worker {worker}"));
        }
        if let Some(deadline) = state.deadline {
            let left = span(deadline.saturating_duration_since(now));
            sentence.push_str(&format!("; its time is over in {left}"));
        }
        sentence
    }

    /// The present attempt, by its number and how many there may be.
    fn nth(&self, state: &State) -> String {
        format!("attempt {} of {}", state.attempt, u64::from(self.retries) + 1)
    }
}

/// How long the timer of the present stage still waits.
fn time_left(state: &State, now: Instant) -> String {
    span(state.timer.map_or(Duration::ZERO, |timer| timer.at().saturating_duration_since(now)))
}

fn how_it_ended(outcome: &Outcome) -> String {
    let how = match outcome.result() {
        Ok(_) => "it succeeded".to_owned(),
        Err(failure) => format!("it ended with {failure}"),
    };
    let attempts = match outcome.attempts {
        0 => return format!("{how}; it was never begun"),
        1 => "1 attempt".to_owned(),
        many => format!("{many} attempts"),
    };
    let (waited, ran) = (span(outcome.waited), span(outcome.ran));
    format!("{how} after {attempts}; the last began {waited} after it was accepted and took {ran}")
}

/// A time as people say it: one unit, at most one digit behind the point.
pub(crate) fn span(time: Duration) -> String {
    let ms = time.as_secs_f64() * 1000.0;
    match ms {
        ..1.0 => format!("{:.0} µs", ms * 1000.0),
        ..1000.0 => format!("{ms:.0} ms"),
        ..120_000.0 => format!("{:.1} s", ms / 1000.0),
        ..7_200_000.0 => format!("{:.0} min", ms / 60_000.0),
        _ => format!("{:.1} h", ms / 3_600_000.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_said_in_the_unit_that_fits() {
        let said = |ms: f64| span(Duration::from_secs_f64(ms / 1000.0));
        assert_eq!([said(0.0), said(0.5), said(12.4), said(1500.0)], ["0 µs", "500 µs", "12 ms", "1.5 s"]);
        assert_eq!([said(180_000.0), said(9_000_000.0)], ["3 min", "2.5 h"]);
    }
}
