//! How a task ended, and how a request was refused: the same JSON at every door.
//!
//! ```json
//! {"task_id":"t17","status":0,"result":{"sum":3},"attempts":1,"waited_us":12,"ran_us":340}
//! {"task_id":17,"status":-5,"error":"handler-crashed","message":"...","attempts":2,"waited_us":9,"ran_us":80}
//! ```
//!
//! It is written by hand into a buffer that the door already has: at a hundred thousand tasks a second this
//! is a good part of the work.

use crate::error::{Position, TaskFailure};
use crate::request::{RequestError, TaskId};
use serde_json::value::RawValue;
use std::io::Write as _;
use std::time::Duration;

/// How a task ended.
#[derive(Debug)]
pub struct Outcome {
    pub(crate) result: Result<Box<RawValue>, TaskFailure>,
    /// How many attempts were begun; 0 if none.
    pub attempts: u32,
    /// From when it was accepted to when its last attempt began, or to its end if none did.
    pub waited: Duration,
    /// How long its last attempt took.
    pub ran: Duration,
}

impl Outcome {
    /// What the handler answered, or why there is no answer.
    pub fn result(&self) -> Result<&RawValue, &TaskFailure> {
        self.result.as_deref()
    }

    /// 0, or the number of the error.
    pub fn status(&self) -> i32 {
        self.result.as_ref().map_or_else(|failure| failure.code.number(), |_| 0)
    }

    /// About how much memory it takes.
    pub fn bytes(&self) -> usize {
        size_of::<Self>()
            + self.result.as_ref().map_or_else(|failure| failure.message.len(), |value| value.get().len())
    }

    /// Appends the JSON above, on one line and without a line break.
    pub fn write_json(&self, id: &TaskId, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"task_id\":");
        write_id(id, out);
        match &self.result {
            Ok(value) => {
                out.extend_from_slice(b",\"status\":0,\"result\":");
                out.extend_from_slice(value.get().as_bytes());
            }
            Err(failure) => write_failure(failure, out),
        }
        out.extend_from_slice(b",\"attempts\":");
        write_number(self.attempts.into(), out);
        out.extend_from_slice(b",\"waited_us\":");
        write_number(microseconds(self.waited), out);
        out.extend_from_slice(b",\"ran_us\":");
        write_number(microseconds(self.ran), out);
        out.push(b'}');
    }
}

/// Why a request was not taken in. Nothing of it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Why.
    pub failure: TaskFailure,
    /// The id that the request gave, if one could be read.
    pub id: Option<TaskId>,
    /// When it is worth trying again, if it is at all.
    pub retry_after: Option<Duration>,
}

impl Refused {
    pub(crate) fn new(failure: TaskFailure, id: Option<TaskId>) -> Self {
        Self { failure, id, retry_after: None }
    }

    /// Appends one line of JSON without a line break:
    /// `{"task_id":17,"status":-102,"error":"queue-full","message":"...","retry_after_ms":20}`.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"task_id\":");
        match &self.id {
            Some(id) => write_id(id, out),
            None => out.extend_from_slice(b"null"),
        }
        write_failure(&self.failure, out);
        if let Some(wait) = self.retry_after {
            out.extend_from_slice(b",\"retry_after_ms\":");
            write_number(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX), out);
        }
        out.push(b'}');
    }
}

impl From<RequestError> for Refused {
    fn from(error: RequestError) -> Self {
        let message =
            if error.path.is_empty() { error.message } else { format!("{}: {}", error.path, error.message) };
        let failure = TaskFailure { code: error.code, message, at: Some(error.position) };
        Self::new(failure, error.id)
    }
}

impl std::fmt::Display for Refused {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(id) = &self.id {
            write!(formatter, "task {id}: ")?;
        }
        self.failure.fmt(formatter)
    }
}

impl std::error::Error for Refused {}

/// Appends `,"status":…,"error":…,"message":…` and the place, if there is one.
fn write_failure(failure: &TaskFailure, out: &mut Vec<u8>) {
    let _ = write!(out, ",\"status\":{},\"error\":\"{}\",\"message\":", failure.code.number(), failure.code);
    write_string(&failure.message, out);
    if let Some(Position { line, column }) = failure.at {
        let _ = write!(out, ",\"line\":{line},\"column\":{column}");
    }
}

/// Appends an id as JSON.
pub(crate) fn write_id(id: &TaskId, out: &mut Vec<u8>) {
    match id {
        TaskId::Number(number) => write_number(*number, out),
        TaskId::Assigned(number) => {
            out.extend_from_slice(b"\"t");
            write_number(*number, out);
            out.push(b'"');
        }
        TaskId::Name(name) => write_string(name, out),
    }
}

/// Appends a text as a JSON string.
pub(crate) fn write_string(text: &str, out: &mut Vec<u8>) {
    serde_json::to_writer(out, text).expect("a string is JSON, and a vector takes it");
}

/// Appends a whole number.
pub(crate) fn write_number(mut number: u64, out: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let mut start = digits.len();
    loop {
        start -= 1;
        digits[start] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[start..]);
}

pub(crate) fn microseconds(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorCode;

    fn json(write: impl FnOnce(&mut Vec<u8>)) -> serde_json::Value {
        let mut out = Vec::new();
        write(&mut out);
        serde_json::from_slice(&out).expect("it is JSON")
    }

    #[test]
    fn an_outcome_is_one_object_whatever_the_words_in_it() {
        let mut outcome = Outcome {
            result: Ok(RawValue::from_string("[1,2]".to_owned()).unwrap()),
            attempts: 1,
            waited: Duration::from_micros(12),
            ran: Duration::from_nanos(3_400),
        };
        assert_eq!(
            json(|out| outcome.write_json(&TaskId::Assigned(17), out)),
            serde_json::json!({"task_id": "t17", "status": 0, "result": [1, 2], "attempts": 1, "waited_us": 12,
                "ran_us": 3}),
        );
        let at = Some(Position { line: 2, column: 5 });
        let message = "a \"quote\"\nand a break".to_owned();
        outcome.result = Err(TaskFailure { code: ErrorCode::HandlerError, message, at });
        let value = json(|out| outcome.write_json(&TaskId::Name("\"".into()), out));
        assert_eq!(value["task_id"], "\"");
        assert_eq!(value["message"], "a \"quote\"\nand a break");
        assert_eq!((value["status"].as_i64(), value["error"].as_str()), (Some(-109), Some("handler-error")));
        assert_eq!((value["line"].as_u64(), value["column"].as_u64()), (Some(2), Some(5)));
    }

    #[test]
    fn a_refusal_says_when_to_come_again() {
        let mut refused = Refused::new(TaskFailure::new(ErrorCode::QueueFull, "full"), None);
        refused.retry_after = Some(Duration::from_millis(20));
        assert_eq!(
            json(|out| refused.write_json(out)),
            serde_json::json!({"task_id": null, "status": -102, "error": "queue-full", "message": "full",
                "retry_after_ms": 20}),
        );
    }

    #[test]
    fn numbers_are_written_whole() {
        for number in [0, 9, 10, 1234, u64::MAX] {
            let mut out = Vec::new();
            write_number(number, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), number.to_string());
        }
    }
}
