//! A dead letter as it lies on the server: the message that failed, with headers that say whose it was and why.
//!
//! The payload is kept as it came, so that it can be sent again as it was. What the headers do not say is read from it.
//!
//! Not here: finding letters, sending them again, letting them go (`dead.rs`).

use crate::message::{self, Heading, given_id};
use crate::names::Queue;
use async_nats::HeaderMap;
use bytes::Bytes;
use millpond_tasks::{Limits, Request, Target, TaskId};
use serde::Serialize;
use serde_json::Value;

/// A task that failed for good.
#[derive(Clone, Debug, Serialize)]
pub struct Letter {
    /// What the task was called.
    pub task_id: TaskId,
    /// Its handler, or its opcode; empty if the message was no request.
    pub handler: String,
    /// How many attempts failed.
    pub failures: u32,
    /// When it died, in Unix time in milliseconds.
    pub died_at_ms: u64,
    /// Why.
    pub reason: String,
    /// The sequence under which it came first.
    pub origin: Option<u64>,
    /// Its place among the letters.
    pub sequence: u64,
    /// The request: as JSON if it is, else as text.
    pub request: Value,
    /// The message as it was.
    #[serde(skip)]
    pub(super) payload: Bytes,
    #[serde(skip)]
    pub(super) heading: Heading,
}

impl Letter {
    /// Reads a message of the stream of dead letters.
    pub(super) fn read(sequence: u64, headers: &HeaderMap, payload: Bytes, died_at_ms: u64) -> Self {
        let text = |name: &str| headers.get(name).map(|value| value.as_str().to_owned());
        let heading = Heading::read(Some(headers));
        // Whatever the limits were when it came.
        let limits = Limits { request_bytes_max: u64::MAX, ..Limits::default() };
        let request = Request::parse(&payload, &limits).ok();
        let said = text(message::TASK).and_then(|json| TaskId::parse(&json));
        let of_request = || request.as_ref().and_then(|request| request.id.clone());
        let task_id =
            said.or_else(of_request).unwrap_or_else(|| given_id(heading.origin.unwrap_or(sequence)));
        let handler = match request.map(|request| request.target) {
            Some(Target::Handler(name)) => name.into_string(),
            Some(Target::Opcode(opcode)) => opcode.to_string(),
            None => String::new(),
        };
        let as_text = || Value::from(String::from_utf8_lossy(&payload));
        Self {
            task_id,
            handler,
            failures: heading.failures,
            died_at_ms,
            reason: text(message::REASON).unwrap_or_default(),
            origin: heading.origin,
            sequence,
            request: serde_json::from_slice(&payload).unwrap_or_else(|_| as_text()),
            payload,
            heading,
        }
    }

    /// As a message of its queue that is tried at once: subject, headers, payload.
    pub(super) fn again(&self, queue: &Queue, now_ms: u64) -> (String, HeaderMap, Bytes) {
        let request = Request::parse(&self.payload, &Limits::default());
        let lane =
            request.map_or(crate::names::Lane::Normal, |request| crate::names::Lane::of(request.priority));
        // It has waited for its time already; and it is a task anew, with nothing failed.
        let waits = self.heading.run_at_ms.or(Some(now_ms).filter(|_| self.was_delayed()));
        let heading = Heading {
            streams: self.heading.streams,
            run_at_ms: waits.map(|at| at.min(now_ms)),
            results: self.heading.results,
            ..Heading::default()
        };
        let mut headers = heading.write();
        headers.insert(message::MESSAGE_ID, format!("dead:{}", self.sequence).as_str());
        (queue.subject(lane), headers, self.payload.clone())
    }

    fn was_delayed(&self) -> bool {
        ["delay_ms", "run_at"].iter().any(|name| self.request.get(name).is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_letter_tells_whose_it_was_also_if_it_was_no_request() {
        let mut headers = HeaderMap::new();
        headers.insert(message::REASON, "handler-error (-109): no");
        headers.insert(message::FAILURES, "3");
        headers.insert(message::ORIGIN, "12");
        let payload =
            Bytes::from_static(br#"{"handler":"echo","task_id":"a b","priority":"low","delay_ms":9}"#);
        let letter = Letter::read(5, &headers, payload.clone(), 1000);
        assert_eq!((letter.task_id.to_string(), letter.handler.as_str()), ("\"a b\"".to_owned(), "echo"));
        assert_eq!((letter.failures, letter.died_at_ms, letter.origin), (3, 1000, Some(12)));
        let queue = Queue::new("q").expect("a queue");
        let (subject, again, sent) = letter.again(&queue, 70);
        assert_eq!((subject.as_str(), sent), ("mill.q.low", payload));
        assert_eq!(Heading::read(Some(&again)), Heading { run_at_ms: Some(70), ..Heading::default() });
        let letter = Letter::read(5, &headers, Bytes::from_static(b"\xFFnonsense"), 0);
        assert_eq!((letter.task_id.to_string(), letter.handler.as_str()), ("\"n12\"".to_owned(), ""));
        assert_eq!(letter.request, "\u{FFFD}nonsense");
    }
}
