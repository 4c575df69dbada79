//! Many tasks in one body, which is read as a whole: each is accepted or refused for itself.
//!
//! Not here: more than fit into a body (`bulk.rs`).

use super::Api;
use super::ask::{Answered, Ask, JSON_TYPE, json_answer};
use super::body;
use super::follow::write_json;
use super::problem::Problem;
use super::submit::{kept, parse, take_in, traceparent};
use super::view::TaskView;
use hyper::StatusCode;
use millpond_tasks::{ErrorCode, Position, TaskFailure};
use serde::de::{DeserializeSeed, Deserializer, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;
use std::io::Write as _;
use std::sync::Arc;

/// About how much JSON one accepted task takes.
const AROUND_A_TASK: usize = 256;

/// After how many tasks others of the same worker get their turn.
const TASKS_PER_TURN: usize = 64;

/// `POST /v1/batch`.
pub(super) async fn batch(api: &Arc<Api>, ask: &mut Ask) -> Answered {
    ask.expect_body(&[JSON_TYPE])?;
    let trace: Option<Box<str>> = traceparent(ask)?.map(Into::into);
    let body = body::whole(api, ask).await?;
    let requests = requests(&body, api.settings.batch_max)?;
    let mut all = Vec::with_capacity(requests.len());
    for (at, text) in requests.iter().enumerate() {
        if at % TASKS_PER_TURN == TASKS_PER_TURN - 1 {
            tokio::task::yield_now().await;
        }
        let accepted = parse(api, text.get().as_bytes()).and_then(|mut request| {
            request.traceparent = request.traceparent.take().or_else(|| trace.clone());
            take_in(api, request, None, true)
        });
        all.push(accepted);
    }
    let mut out = Vec::with_capacity(requests.len() * AROUND_A_TASK);
    out.extend_from_slice(b"{\"tasks\":[");
    for (at, mut accepted) in all.into_iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        // All are on their way to the disk, so the first wait is the only long one.
        if let Ok(task) = &accepted
            && let Err(problem) = kept(task).await
        {
            accepted = Err(problem);
        }
        match accepted {
            Ok(accepted) => {
                out.extend_from_slice(b"{\"status\":202,\"task\":");
                write_json(&TaskView::from(accepted.task.status()), &mut out);
            }
            Err(problem) => {
                // Writing into a vector does not fail.
                let _ = write!(out, "{{\"status\":{},\"problem\":", problem.status());
                problem.write_json(None, &mut out);
            }
        }
        out.push(b'}');
    }
    out.extend_from_slice(b"]}");
    Ok(json_answer(StatusCode::OK, out))
}

/// The requests in a body, each still as its text.
fn requests(body: &[u8], batch_max: usize) -> Result<Vec<&RawValue>, Box<Problem>> {
    let invalid = |message: String, at| {
        let failure = TaskFailure { code: ErrorCode::InvalidRequest, message, at };
        Problem::of_failure(failure, None)
    };
    let mut reader = serde_json::Deserializer::from_slice(body);
    let read = AtMost(batch_max).deserialize(&mut reader).and_then(|read| reader.end().map(|()| read));
    let (requests, count) = read.map_err(|error| {
        let text = error.to_string();
        let words = text.split(" at line ").next().unwrap_or(&text);
        let at = Position { line: error.line() as u64, column: error.column() as u64 };
        invalid(format!("expected a JSON array of requests: {words}"), Some(at))
    })?;
    if (1..=batch_max).contains(&count) {
        return Ok(requests);
    }
    let advice = if count == 0 { "" } else { "; use /v1/bulk for more" };
    Err(invalid(format!("expected 1 to {batch_max} requests, got {count}{advice}"), None))
}

/// Reads an array: so many of its elements at most, and how many there are.
struct AtMost(usize);

impl<'de> DeserializeSeed<'de> for AtMost {
    type Value = (Vec<&'de RawValue>, usize);

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for AtMost {
    type Value = (Vec<&'de RawValue>, usize);

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a sequence")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Self::Value, A::Error> {
        let (mut some, mut count) = (Vec::new(), 0);
        while let Some(element) = elements.next_element()? {
            count += 1;
            if count <= self.0 {
                some.push(element);
            }
        }
        Ok((some, count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_an_array_of_some_requests_but_not_too_many() {
        assert_eq!(requests(b"[{}, 1 ,\"x\"]", 3).unwrap().len(), 3);
        for (body, words) in [
            (&b"[]"[..], "expected 1 to 2 requests, got 0"),
            (b"[1,2,3]", "expected 1 to 2 requests, got 3; use /v1/bulk for more"),
            (b"{}", "expected a JSON array of requests: invalid type: map, expected a sequence"),
            (b"[{}", "expected a JSON array of requests: EOF while parsing a list"),
        ] {
            let mut out = Vec::new();
            requests(body, 2).unwrap_err().write_json(None, &mut out);
            let problem: serde_json::Value = serde_json::from_slice(&out).unwrap();
            assert_eq!(problem["detail"], words);
            assert_eq!(problem["status"], 400);
        }
    }
}
