//! A refusal as the client reads it: one JSON object as in RFC 9457, with a code that never changes.
//!
//! What goes wrong with a task has its row in the table of errors, the same at every door. What only HTTP can
//! get wrong (a route, a method, a token) has a row here. Either way the answer says what was expected, what
//! came and what to do, and carries the id of the request, so that a line in somebody's log leads back to it.
//!
//! Not here: who refuses what.

use super::ask::{Answer, json_answer};
use hyper::StatusCode;
use hyper::header::{CONNECTION, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER};
use millpond_tasks::{ErrorCode, Refused, TaskFailure, TaskId};
use serde::Serialize;
use std::time::Duration;

/// The media type of every refusal.
pub(super) const PROBLEM_TYPE: &str = "application/problem+json";
/// When it is worth trying again where nobody knows better.
const COME_AGAIN: Duration = Duration::from_secs(1);

/// One row of what only HTTP can get wrong.
#[derive(Clone, Copy, Debug)]
pub(super) struct FaultRow {
    /// The code, for programs.
    pub(super) name: &'static str,
    /// The status of the answer.
    pub(super) status: u16,
    /// One sentence for people.
    pub(super) sentence: &'static str,
}

/// Makes the enum and its rows out of one list, so that neither can lack what the other has.
macro_rules! faults {
    ($($variant:ident = $name:literal, $status:literal, $sentence:literal;)*) => {
        /// What only HTTP can get wrong.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Fault { $($variant,)* }

        /// The whole table.
        #[cfg(test)]
        pub(super) const FAULTS: &[FaultRow] = &[$(Fault::$variant.row(),)*];

        impl Fault {
            const fn row(self) -> FaultRow {
                match self {
                    $(Self::$variant => FaultRow { name: $name, status: $status, sentence: $sentence },)*
                }
            }
        }
    };
}

faults! {
    BadQuery = "bad-query", 400, "The address says something it may not behind the question mark.";
    BadHeader = "bad-header", 400, "A header says something it may not.";
    BadId = "bad-id", 400, "The address names a task by something that is no id.";
    BrokenBody = "broken-body", 400, "The body ended or broke before it was complete.";
    Unauthorized = "unauthorized", 401, "The request shows no token, or an unknown one.";
    Forbidden = "forbidden", 403, "The token allows to look and not to change.";
    CrossSite = "cross-site", 403, "A page of another site may not use this door from a browser.";
    RouteNotFound = "route-not-found", 404, "There is nothing at this address.";
    MethodNotAllowed = "method-not-allowed", 405, "This address does not know this method.";
    NotAcceptable = "not-acceptable", 406, "The answer does not come in any form that the request accepts.";
    BodyTimeout = "body-timeout", 408, "The body took too long to arrive.";
    BodyTooLarge = "body-too-large", 413, "The body is larger than the limit.";
    UnsupportedMediaType = "unsupported-media-type", 415, "The body is of a kind that is not read here.";
    HostNotAllowed = "host-not-allowed", 421, "The door is not known under this host name.";
    BodiesFull = "bodies-full", 503, "Other requests' bodies take all the memory there is for bodies.";
    AnswersFull = "answers-full", 503, "Answers that others have not read take all the memory there is for answers.";
    TooManyWaiting = "too-many-waiting", 503, "As many requests wait as may.";
    RequestTimeout = "request-timeout", 504, "The request took as long as a request may; its task goes on.";
}

/// A refusal on its way to the client.
#[derive(Debug)]
pub(crate) struct Problem {
    status: u16,
    code: &'static str,
    title: &'static str,
    number: Option<i32>,
    failure: TaskFailure,
    task_id: Option<TaskId>,
    retry_after: Option<Duration>,
    headers: Vec<(HeaderName, HeaderValue)>,
}

/// The JSON of a refusal.
#[derive(Serialize)]
struct Words<'a> {
    #[serde(rename = "type")]
    kind: String,
    title: &'a str,
    status: u16,
    detail: &'a str,
    code: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    number: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    task_id: Option<&'a TaskId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    instance: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<u64>,
}

impl Problem {
    /// Something that only HTTP can get wrong.
    pub(crate) fn new(fault: Fault, detail: impl Into<String>) -> Box<Self> {
        let FaultRow { name, status, sentence } = fault.row();
        Box::new(Self {
            status,
            code: name,
            title: sentence,
            number: None,
            // Only its words and its place are shown; the code is the one above.
            failure: TaskFailure::new(ErrorCode::InvalidRequest, detail),
            task_id: None,
            retry_after: (status == 503).then_some(COME_AGAIN),
            headers: Vec::new(),
        })
    }

    /// Something that went wrong with a task.
    pub(crate) fn of_failure(failure: TaskFailure, task_id: Option<TaskId>) -> Box<Self> {
        let row = failure.code.row();
        Box::new(Self {
            status: row.http_status,
            code: row.name,
            title: row.sentence,
            number: Some(row.number),
            failure,
            task_id,
            retry_after: (row.http_status == 503).then_some(COME_AGAIN),
            headers: Vec::new(),
        })
    }

    /// Which task it is about.
    pub(crate) fn about(mut self: Box<Self>, task_id: &TaskId) -> Box<Self> {
        self.task_id = Some(task_id.clone());
        self
    }

    /// With one more header.
    pub(crate) fn with_header(mut self: Box<Self>, name: HeaderName, value: HeaderValue) -> Box<Self> {
        self.headers.push((name, value));
        self
    }

    /// The rest of the request is not read, so the connection is of no further use.
    pub(crate) fn closing(self: Box<Self>) -> Box<Self> {
        self.with_header(CONNECTION, HeaderValue::from_static("close"))
    }

    /// The status of the answer.
    pub(crate) fn status(&self) -> u16 {
        self.status
    }

    /// Appends it as JSON. In a batch the whole has an address and an id, and the parts have none.
    pub(crate) fn write_json(&self, of: Option<(&str, &str)>, out: &mut Vec<u8>) {
        let milliseconds = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let words = Words {
            kind: format!("urn:millpond:error:{}", self.code),
            title: self.title,
            status: self.status,
            detail: &self.failure.message,
            code: self.code,
            number: self.number,
            task_id: self.task_id.as_ref(),
            instance: of.map(|(instance, _)| instance),
            request_id: of.map(|(_, request_id)| request_id),
            retry_after_ms: self.retry_after.map(milliseconds),
            line: self.failure.at.map(|at| at.line),
            column: self.failure.at.map(|at| at.column),
        };
        serde_json::to_writer(out, &words).expect("texts and numbers are JSON, and a vector takes them");
    }

    /// The whole answer.
    pub(crate) fn into_answer(self, instance: &str, request_id: &str) -> Answer {
        let mut body = Vec::with_capacity(512);
        self.write_json(Some((instance, request_id)), &mut body);
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut answer = json_answer(status, body);
        answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(PROBLEM_TYPE));
        if let Some(wait) = self.retry_after {
            // The header knows whole seconds only, and 0 would mean at once.
            let seconds = wait.as_millis().div_ceil(1000).max(1);
            let value = HeaderValue::from(u64::try_from(seconds).unwrap_or(u64::MAX));
            answer.headers_mut().insert(RETRY_AFTER, value);
        }
        answer.headers_mut().extend(self.headers);
        answer
    }
}

impl From<Refused> for Box<Problem> {
    fn from(refused: Refused) -> Self {
        let Refused { failure, id, retry_after } = refused;
        let mut problem = Problem::of_failure(failure, id);
        problem.retry_after = retry_after.or(problem.retry_after);
        problem
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_tasks::Position;

    #[test]
    fn a_refusal_has_what_is_known_and_leaves_out_the_rest() {
        let mut failure = TaskFailure::new(ErrorCode::QueueFull, "the queue is full");
        failure.at = Some(Position { line: 1, column: 7 });
        let refused = Refused { failure, id: None, retry_after: Some(Duration::from_millis(20)) };
        let mut out = Vec::new();
        Box::<Problem>::from(refused).write_json(Some(("/v1/tasks", "r1")), &mut out);
        assert_eq!(
            serde_json::from_slice::<serde_json::Value>(&out).unwrap(),
            serde_json::json!({
                "type": "urn:millpond:error:queue-full", "code": "queue-full", "number": -102, "status": 503,
                "title": "The task was refused because the queue is full.", "detail": "the queue is full",
                "instance": "/v1/tasks", "request_id": "r1", "retry_after_ms": 20, "line": 1, "column": 7,
            }),
        );
        let mut out = Vec::new();
        Problem::new(Fault::BadId, "none").write_json(None, &mut out);
        assert_eq!(
            serde_json::from_slice::<serde_json::Value>(&out).unwrap(),
            serde_json::json!({
                "type": "urn:millpond:error:bad-id", "code": "bad-id", "status": 400, "detail": "none",
                "title": "The address names a task by something that is no id.",
            }),
        );
    }

    #[test]
    fn no_code_of_http_is_also_a_code_of_tasks_and_none_comes_twice() {
        let mut names: Vec<_> = FAULTS.iter().map(|row| row.name).collect();
        names.extend(millpond_tasks::error::TABLE.iter().map(|row| row.name));
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
