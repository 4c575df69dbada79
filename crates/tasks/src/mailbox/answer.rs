//! An answer to a request that stood in line `line` of a longer text: the usual JSON, with that number.
//!
//! Whoever sends a file of requests looks for a mistake by the line of the file. A place inside of the
//! request, if the answer names one, is moved to that line; otherwise the number is added.
//!
//! Not here: the JSON of an answer that stands alone (`outcome.rs`).

use crate::error::{Position, TaskFailure};
use crate::outcome::{Outcome, Refused, write_number};
use crate::request::TaskId;

/// Appends an outcome as one line of JSON with `"line":N` in it, without a line break.
pub fn write_outcome(outcome: &Outcome, id: &TaskId, line: u64, out: &mut Vec<u8>) {
    match outcome.result() {
        Err(failure) if failure.at.is_some() => {
            let moved = Outcome { result: Err(moved(failure, line)), ..*outcome };
            moved.write_json(id, out);
        }
        _ => {
            outcome.write_json(id, out);
            add_line(line, out);
        }
    }
}

/// Appends a refusal as one line of JSON with `"line":N` in it, without a line break.
pub fn write_refused(mut refused: Refused, line: u64, out: &mut Vec<u8>) {
    let has_place = refused.failure.at.is_some();
    refused.failure = moved(&refused.failure, line);
    refused.write_json(out);
    if !has_place {
        add_line(line, out);
    }
}

fn moved(failure: &TaskFailure, line: u64) -> TaskFailure {
    let at = failure.at.map(|at| Position { line: at.line.saturating_add(line.saturating_sub(1)), ..at });
    TaskFailure { at, ..failure.clone() }
}

/// Adds a last entry to the object at the end of `out`.
fn add_line(line: u64, out: &mut Vec<u8>) {
    let brace = out.pop();
    debug_assert_eq!(brace, Some(b'}'), "an answer is an object");
    out.extend_from_slice(b",\"line\":");
    write_number(line, out);
    out.push(b'}');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorCode;
    use serde_json::value::RawValue;
    use std::time::Duration;

    fn json(write: impl FnOnce(&mut Vec<u8>)) -> serde_json::Value {
        let mut out = Vec::new();
        write(&mut out);
        serde_json::from_slice(&out).expect("it is JSON")
    }

    #[test]
    fn an_answer_names_the_line_of_the_file_once() {
        let mut outcome = Outcome {
            result: Ok(RawValue::from_string("1".to_owned()).unwrap()),
            attempts: 1,
            waited: Duration::ZERO,
            ran: Duration::ZERO,
        };
        let id = TaskId::Number(7);
        let good = json(|out| write_outcome(&outcome, &id, 40, out));
        assert_eq!((good["line"].as_u64(), good["result"].as_u64()), (Some(40), Some(1)));

        let at = Some(Position { line: 1, column: 9 });
        outcome.result = Err(TaskFailure { code: ErrorCode::BadArguments, message: "x".into(), at });
        let mut text = Vec::new();
        write_outcome(&outcome, &id, 40, &mut text);
        let text = String::from_utf8(text).unwrap();
        assert_eq!(text.matches("\"line\"").count(), 1, "{text}");
        assert!(text.contains("\"line\":40,\"column\":9"), "{text}");

        let failure = TaskFailure::new(ErrorCode::Draining, "x");
        let refused = Refused { failure, id: None, retry_after: None };
        assert_eq!(json(|out| write_refused(refused.clone(), 3, out))["line"], 3);
        let failure = TaskFailure { at, ..refused.failure };
        let placed = json(|out| write_refused(Refused { failure, id: None, retry_after: None }, 3, out));
        assert_eq!((placed["line"].as_u64(), placed["column"].as_u64()), (Some(3), Some(9)));
    }
}
