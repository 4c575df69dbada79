//! How a task looks from outside: a line for lists, and all there is to know for whoever asks about one.
//!
//! Both are pictures of one moment, made when somebody asks; a task that nobody asks about pays nothing for
//! them but its arguments, which are kept to be shown and to be tried again.
//!
//! Not here: the JSON of an outcome, which is written a hundred thousand times a second (`outcome.rs`).

use crate::door::DoorName;
use crate::error::TaskFailure;
use crate::outcome::{Outcome, microseconds};
use crate::request::TaskId;
use crate::task::{Stage, State, Task};
use millpond::Priority;
use serde::Serialize;
use serde_json::value::RawValue;
use std::time::Duration;

/// How many attempts are told of one by one; of more, the latest.
pub const TRIES_MAX: usize = 16;
/// The most bytes of an attempt's message that are kept once another attempt follows.
const TRY_MESSAGE_BYTES_MAX: usize = 1024;

/// A task at one moment, for people and programs that look.
#[derive(Clone, Debug, Serialize)]
pub struct TaskStatus {
    /// Its id.
    pub task_id: TaskId,
    /// Who does it.
    pub handler: String,
    /// Where it stands.
    pub stage: Stage,
    /// How urgent it is: `high`, `normal` or `low`.
    pub priority: &'static str,
    /// By which door it came.
    pub door: DoorName,
    /// How many attempts have begun.
    pub attempts: u32,
    /// When it was accepted, in Unix time.
    pub accepted_at_ms: u64,
    /// How long ago it was accepted.
    pub age_us: u64,
    /// The worker on which its last attempt began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker: Option<usize>,
    /// How much of it is done, if it said so: 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<f64>,
    /// How long it waited for its last attempt, once it has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waited_us: Option<u64>,
    /// For how long the present attempt has been running, or the last one ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ran_us: Option<u64>,
    /// 0 or the number of its error, once it has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<i32>,
    /// The name of its error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<&'static str>,
    /// The error in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The offset of the next event in its stream.
    pub events: u64,
}

/// All there is to know of one task.
#[derive(Clone, Debug, Serialize)]
pub struct TaskDetail {
    /// What a list shows of it.
    #[serde(flatten)]
    pub status: TaskStatus,
    /// Its arguments, as they came.
    pub args: Box<RawValue>,
    /// What its handler answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Box<RawValue>>,
    /// Its attempts, the latest [`TRIES_MAX`] of them, oldest first. One that runs is the last.
    pub tries: Vec<Try>,
    /// How long one attempt may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// How many more attempts a failure allows, or allowed.
    pub retries: u32,
    /// The W3C trace context that it continues.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    /// When it goes on, in Unix time, if it waits for a moment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub due_at_ms: Option<u64>,
    /// By when it must have begun, in Unix time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at_ms: Option<u64>,
    /// The key that no other task may have meanwhile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unique_key: Option<String>,
    /// What its attempts left for the next one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Box<RawValue>>,
}

/// One attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Try {
    /// Which, from 1.
    pub attempt: u32,
    /// How long after the acceptance it began.
    pub began_after_us: u64,
    /// How long it took, or has taken so far.
    pub ran_us: u64,
    /// The worker on which it began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker: Option<usize>,
    /// The name of its error, if it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<&'static str>,
    /// The error in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl Try {
    /// About how much memory it takes.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>() + self.message.as_ref().map_or(0, String::len)
    }
}

/// As it is written in JSON.
pub(crate) const fn priority_name(priority: Priority) -> &'static str {
    match priority {
        Priority::High => "high",
        Priority::Normal => "normal",
        Priority::Low => "low",
    }
}

impl Task {
    /// How it stands now.
    pub fn status(&self) -> TaskStatus {
        self.status_of(&self.lock())
    }

    /// All there is to know of it now.
    pub fn detail(&self) -> TaskDetail {
        let state = self.lock();
        let result = self.outcome().and_then(|outcome| outcome.result().ok());
        TaskDetail {
            status: self.status_of(&state),
            args: self.args.clone(),
            result: result.map(ToOwned::to_owned),
            tries: self.tries_of(&state),
            timeout_ms: self.timeout.map(|timeout| u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX)),
            retries: self.retries,
            traceparent: self.traceparent().map(str::to_owned),
            due_at_ms: state.due_ms,
            expires_at_ms: self.expires.map(|expires| {
                let ns = u64::try_from(expires.as_nanos()).unwrap_or(u64::MAX);
                self.accepted_unix_ns.saturating_add(ns) / 1_000_000
            }),
            unique_key: self.unique_key.as_deref().map(str::to_owned),
            checkpoint: state.checkpoint.as_deref().map(ToOwned::to_owned),
        }
    }

    /// Its attempts, the latest [`TRIES_MAX`] of them, oldest first.
    pub fn tries(&self) -> Vec<Try> {
        self.tries_of(&self.lock())
    }

    fn status_of(&self, state: &State) -> TaskStatus {
        let running = state.began_at.filter(|_| state.stage == Stage::Running).map(|began| began.elapsed());
        let outcome = self.outcome();
        let failure = outcome.and_then(|outcome| outcome.result().err());
        TaskStatus {
            task_id: self.id.clone(),
            handler: self.handler.name.to_string(),
            stage: state.stage,
            priority: priority_name(self.priority),
            door: self.door,
            attempts: state.attempt,
            accepted_at_ms: self.accepted_unix_ns / 1_000_000,
            age_us: microseconds(self.accepted_at.elapsed()),
            worker: state.worker,
            progress: state.progress,
            waited_us: outcome.map(|outcome| microseconds(outcome.waited)),
            ran_us: running.or(outcome.map(|outcome| outcome.ran)).map(microseconds),
            status: outcome.map(Outcome::status),
            error: failure.map(|failure| failure.code.name()),
            message: failure.map(|failure| failure.message.clone()),
            events: state.stream.as_ref().map_or(0, |stream| stream.next()),
        }
    }

    /// Those that were noted, and the last one if it was not.
    fn tries_of(&self, state: &State) -> Vec<Try> {
        let mut tries = state.tries.clone();
        let is_noted = tries.last().is_some_and(|last| last.attempt == state.attempt);
        if let Some(began) = state.began_at.filter(|_| !is_noted) {
            let last = match self.outcome() {
                Some(outcome) => self.last_try(state, outcome.ran, outcome.result().err()),
                None => self.last_try(state, began.elapsed(), None),
            };
            keep_try(&mut tries, last);
        }
        tries
    }

    /// The last attempt, which took so long and perhaps failed.
    pub(crate) fn last_try(&self, state: &State, ran: Duration, failure: Option<&TaskFailure>) -> Try {
        let waited = state.began_at.map(|began| began.saturating_duration_since(self.accepted_at));
        Try {
            attempt: state.attempt,
            began_after_us: microseconds(waited.unwrap_or_default()),
            ran_us: microseconds(ran),
            worker: state.worker,
            error: failure.map(|failure| failure.code.name()),
            message: failure.map(|failure| beginning(&failure.message).to_owned()),
        }
    }
}

/// Adds an attempt to those that are told of; the oldest makes room.
pub(crate) fn keep_try(tries: &mut Vec<Try>, last: Try) {
    if tries.len() == TRIES_MAX {
        tries.remove(0);
    }
    tries.push(last);
}

/// As much of a message as is kept.
fn beginning(message: &str) -> &str {
    let mut end = message.len().min(TRY_MESSAGE_BYTES_MAX);
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    &message[..end]
}
