//! What the daemon says, read from JSON and put into words.
//!
//! Only what the program itself needs is read. What it does not know passes through `--json` untouched, so
//! that an older program shows all that a newer daemon says.

use crate::failure::Failure;
use crate::output::harmless;
use millpond_tasks::TaskId;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// A task's id, as JSON writes it.
#[derive(Clone, Debug, Deserialize)]
#[serde(transparent)]
pub(crate) struct Id(pub(crate) Box<RawValue>);

impl Id {
    pub(crate) fn of(id: &TaskId) -> Self {
        Self(RawValue::from_string(id.to_string()).expect("an id prints as JSON"))
    }

    /// As people write it: without quotes, unless it would be taken for a number then.
    pub(crate) fn shown(&self) -> String {
        let json = self.0.get();
        match serde_json::from_str::<String>(json) {
            Ok(name) if name.parse::<u64>().is_err() => harmless(&name).into_owned(),
            _ => harmless(json).into_owned(),
        }
    }
}

/// ACCEPTED.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Accepted {
    pub(crate) task_id: Id,
    /// Whether the queue had it already.
    #[serde(default)]
    pub(crate) duplicate: bool,
}

/// RESULT: how a task ended.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Outcome {
    pub(crate) task_id: Id,
    pub(crate) status: i32,
    pub(crate) result: Option<Box<RawValue>>,
    #[serde(default)]
    pub(crate) error: String,
    #[serde(default)]
    message: String,
}

impl Outcome {
    /// What went wrong, in words.
    pub(crate) fn failure(&self) -> String {
        format!("task {}: {}", self.task_id.shown(), in_words(&self.error, self.status, &self.message))
    }
}

/// ERROR: why there is no answer.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Refusal {
    pub(crate) task_id: Option<Id>,
    pub(crate) status: i32,
    pub(crate) error: String,
    #[serde(default)]
    message: String,
    pub(crate) retry_after_ms: Option<u64>,
    pub(crate) line: Option<usize>,
    pub(crate) column: Option<usize>,
    /// The JSON that said all this.
    #[serde(skip)]
    pub(crate) json: Vec<u8>,
}

impl Refusal {
    pub(crate) fn read(payload: &[u8]) -> Result<Self, Failure> {
        Ok(Self { json: payload.to_vec(), ..read(payload)? })
    }

    /// What went wrong, in words.
    pub(crate) fn in_words(&self) -> String {
        let task = self.task_id.as_ref().map_or(String::new(), |id| format!("task {}: ", id.shown()));
        format!("{task}{}", in_words(&self.error, self.status, &self.message))
    }

    /// Whether the daemon takes nothing at the moment, whatever it is.
    pub(crate) fn is_about_the_daemon(&self) -> bool {
        self.is_full()
            || self.is_draining()
            || ["journal-full", "journal-failed"].contains(&self.error.as_str())
    }

    /// Whether it will take nothing any more.
    pub(crate) fn is_draining(&self) -> bool {
        self.error == "draining"
    }

    /// Whether it is worth another try in a moment.
    pub(crate) fn is_full(&self) -> bool {
        self.error == "queue-full"
    }

    /// The end of a command that cannot go on with this.
    pub(crate) fn into_failure(self) -> Failure {
        match self.is_about_the_daemon() {
            true => Failure::Refused(self.in_words()),
            false => Failure::Failed(self.in_words()),
        }
    }
}

/// EVENT: something that a task says while it runs. One of these is there.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Event {
    pub(crate) partial: Option<Box<RawValue>>,
    pub(crate) progress: Option<f64>,
    pub(crate) log: Option<String>,
    pub(crate) missed: Option<u64>,
    pub(crate) retrying: Option<Retrying>,
}

/// An attempt failed, and another one follows.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Retrying {
    pub(crate) failures: u64,
    #[serde(default)]
    status: i32,
    #[serde(default)]
    error: String,
    #[serde(default)]
    message: String,
}

impl Retrying {
    /// What went wrong, in words.
    pub(crate) fn failure(&self) -> String {
        in_words(&self.error, self.status, &self.message)
    }
}

/// STATUS: where a task stands. TASKS has a list of them.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Status {
    pub(crate) task_id: Id,
    pub(crate) handler: String,
    pub(crate) stage: String,
    #[serde(default)]
    pub(crate) attempts: u64,
    #[serde(default)]
    pub(crate) age_us: u64,
    pub(crate) progress: Option<f64>,
    pub(crate) ran_us: Option<u64>,
    pub(crate) status: Option<i32>,
    pub(crate) error: Option<String>,
    pub(crate) message: Option<String>,
    #[serde(default)]
    pub(crate) events: u64,
}

impl Status {
    /// Whether it has an outcome.
    pub(crate) fn is_ended(&self) -> bool {
        self.status.is_some()
    }
}

/// Reads a payload.
pub(crate) fn read<'a, T: Deserialize<'a>>(payload: &'a [u8]) -> Result<T, Failure> {
    serde_json::from_slice(payload).map_err(|error| {
        let shown = String::from_utf8_lossy(&payload[..payload.len().min(200)]);
        Failure::Failed(format!(
            "the daemon said what this program does not understand ({error}): {}",
            harmless(&shown)
        ))
    })
}

/// JSON for people on a terminal, and untouched for whoever reads a pipe.
pub(crate) fn json_shown(json: &str, is_terminal: bool) -> Cow<'_, str> {
    if is_terminal { harmless(json) } else { Cow::Borrowed(json) }
}

fn in_words(error: &str, status: i32, message: &str) -> String {
    let text = match message {
        "" => format!("{error} ({status})"),
        message => format!("{error} ({status}): {message}"),
    };
    harmless(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_shown_so_that_they_can_be_typed_again() {
        for (json, shown) in [("17", "17"), (r#""t17""#, "t17"), (r#""17""#, r#""17""#), (r#""a b""#, "a b")]
        {
            let accepted: Accepted = read(format!(r#"{{"task_id":{json}}}"#).as_bytes()).unwrap();
            assert_eq!(accepted.task_id.shown(), shown);
            let again = TaskId::parse(shown).unwrap();
            assert_eq!(again.to_string(), json, "{shown}");
        }
    }

    #[test]
    fn a_refusal_says_whether_it_is_worth_another_try() {
        let refusal = |json: &str| Refusal::read(json.as_bytes()).unwrap();
        let full = refusal(
            r#"{"task_id":null,"status":-102,"error":"queue-full","message":"x","retry_after_ms":20}"#,
        );
        assert!(full.is_full() && full.is_about_the_daemon() && full.retry_after_ms == Some(20));
        assert_eq!(full.in_words(), "queue-full (-102): x");
        let no_disk = refusal(r#"{"task_id":null,"status":-118,"error":"journal-full","message":"x"}"#);
        assert!(no_disk.is_about_the_daemon() && !no_disk.is_full());
        let bad = refusal(
            r#"{"task_id":7,"status":-2,"error":"invalid-request","message":"y","line":1,"column":3}"#,
        );
        assert!(!bad.is_about_the_daemon());
        assert_eq!(bad.in_words(), "task 7: invalid-request (-2): y");
    }
}
