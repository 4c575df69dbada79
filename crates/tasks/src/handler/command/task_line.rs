//! The line that asks a process for a task.
//!
//! `{"task_id":17,"handler":"resize","attempt":1,"args":{…},"timeout_ms":30000,"traceparent":"…",
//! "checkpoint":…}`, where the last three come only if there are any. It is put together from text, because the
//! arguments already are text and stay as their sender wrote them.

use serde_json::value::RawValue;
use std::fmt::Display;
use std::io::Write;
use std::time::Duration;

/// What the line says.
pub(super) struct TaskLine<'call> {
    /// Prints as JSON.
    pub(super) task_id: &'call dyn Display,
    /// Letters that need no escape.
    pub(super) handler: &'call str,
    pub(super) attempt: u32,
    pub(super) args: &'call RawValue,
    /// How much time is left.
    pub(super) timeout: Option<Duration>,
    pub(super) traceparent: Option<&'call str>,
    /// What an earlier attempt left.
    pub(super) checkpoint: Option<&'call RawValue>,
}

impl TaskLine<'_> {
    /// The line with its line break.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let args = self.args.get().as_bytes();
        let mut line = Vec::with_capacity(args.len() + 256);
        let Self { task_id, handler, attempt, .. } = self;
        let begin =
            write!(line, r#"{{"task_id":{task_id},"handler":"{handler}","attempt":{attempt},"args":"#);
        begin.expect("memory takes what is written");
        append_in_one_line(args, &mut line);
        if let Some(timeout) = self.timeout {
            let left = timeout.as_millis().max(1);
            write!(line, r#","timeout_ms":{left}"#).expect("memory takes what is written");
        }
        if let Some(traceparent) = self.traceparent {
            line.extend_from_slice(b",\"traceparent\":");
            serde_json::to_writer(&mut line, traceparent).expect("a text is JSON");
        }
        if let Some(checkpoint) = self.checkpoint {
            line.extend_from_slice(b",\"checkpoint\":");
            append_in_one_line(checkpoint.get().as_bytes(), &mut line);
        }
        line.extend_from_slice(b"}\n");
        line
    }
}

fn append_in_one_line(json: &[u8], line: &mut Vec<u8>) {
    let from = line.len();
    line.extend_from_slice(json);
    for byte in line[from..].iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r')) {
        // A line break in valid JSON stands between its parts, where a space says the same.
        *byte = b' ';
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_one_line_whatever_its_arguments_look_like() {
        let args = RawValue::from_string("{\n  \"a\": \"b\\n\",\r\n \"c\": 1}".to_owned()).unwrap();
        let mut line = TaskLine {
            task_id: &r#""a""#,
            handler: "resize",
            attempt: 2,
            args: &args,
            timeout: None,
            traceparent: None,
            checkpoint: None,
        };
        let text = |line: &TaskLine| String::from_utf8(line.to_bytes()).unwrap();
        assert_eq!(
            text(&line),
            concat!(
                r#"{"task_id":"a","handler":"resize","attempt":2,"args":{   "a": "b\n",   "c": 1}}"#,
                "\n"
            )
        );
        line.timeout = Some(Duration::from_micros(10));
        line.traceparent = Some("00-\"");
        assert!(text(&line).ends_with(",\"timeout_ms\":1,\"traceparent\":\"00-\\\"\"}\n"));
        let checkpoint = RawValue::from_string("{\"at\":\n7}".to_owned()).unwrap();
        line.checkpoint = Some(&checkpoint);
        assert!(text(&line).ends_with(",\"checkpoint\":{\"at\": 7}}\n"));
    }
}
