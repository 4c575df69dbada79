//! Arguments that come without a request around them, for doors that name the handler in another way.
//!
//! They are held to the same rules as `args` in a request, and refused in the same words. Small ones without
//! escapes cost no memory. A line break cannot be taken out without copying, so it is refused here.

use super::checked_text;
use super::fields::{look_through, offset_in, syntax};
use super::limits::Limits;
use super::plain;
use super::problem::{Problem, RequestError};
use super::scan;
use super::values::Value;
use crate::error::ErrorCode;
use serde_json::value::RawValue;
use std::str;

/// Reads arguments: a JSON object on one line, in which no name comes twice, within the limits of a request.
///
/// ```
/// use millpond_tasks::Limits;
/// use millpond_tasks::request::read_args;
///
/// let limits = Limits::default();
/// assert_eq!(read_args(br#"{"n": 1}"#, &limits)?.get(), r#"{"n": 1}"#);
/// let error = read_args(br#"{"list": [1, {"n": 1, "n": 2}]}"#, &limits).unwrap_err();
/// assert_eq!(error.to_string(), "args.list[1]: the key \"n\" comes twice (line 1, column 23)");
/// # Ok::<(), millpond_tasks::RequestError>(())
/// ```
pub fn read_args<'a>(text: &'a [u8], limits: &Limits) -> Result<&'a RawValue, RequestError> {
    read(text, limits).map_err(|problem| problem.in_args(text))
}

fn read<'a>(bytes: &'a [u8], limits: &Limits) -> Result<&'a RawValue, Problem> {
    if bytes.len() as u64 > limits.args_bytes_max {
        let message = format!("expected at most {} bytes, got {}", limits.args_bytes_max, bytes.len());
        return Err(Problem::new(ErrorCode::TooLarge, 0, message));
    }
    let plain_text = str::from_utf8(bytes).ok().filter(|text| plain::object(text, 1, limits, |_, _| true));
    let text = match plain_text {
        Some(text) => text,
        None => {
            scan::check(bytes, 1, limits)?;
            checked_text(bytes, "an object")?
        }
    };
    let raw: &RawValue = serde_json::from_str(text).map_err(|error| syntax(text, text, &error))?;
    let value = Value { json: raw.get(), offset: offset_in(text, raw.get()) };
    if plain_text.is_none() {
        look_through(text, &value)?;
    }
    match memchr::memchr2(b'\n', b'\r', value.json.as_bytes()) {
        Some(at) => {
            let message = "expected the arguments on one line, got a line break; put a space in its place";
            Err(Problem::invalid(value.offset + at, message))
        }
        None => Ok(raw),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Request;
    use super::*;

    fn said(args: &str, limits: &Limits) -> Result<String, String> {
        let read = read_args(args.as_bytes(), limits);
        read.map(|raw| raw.get().to_owned()).map_err(|error| {
            let text = error.to_string();
            // Places differ, because a request stands around the other.
            format!("{:?} {}", error.code, text.rsplit_once(" (line").map_or(&*text, |(said, _)| said))
        })
    }

    fn said_in_a_request(args: &str, limits: &Limits) -> Result<String, String> {
        let request = format!("{{\"handler\":\"a\",\"args\":{args}}}");
        let read = Request::parse(request.as_bytes(), limits);
        read.map(|request| request.args.get().to_owned()).map_err(|error| {
            let text = error.to_string();
            format!("{:?} {}", error.code, text.rsplit_once(" (line").map_or(&*text, |(said, _)| said))
        })
    }

    #[test]
    fn arguments_alone_are_judged_as_in_a_request() {
        let limits = Limits { depth_max: 4, string_bytes_max: 10, args_bytes_max: 60, ..Limits::default() };
        let fine = ["{}", r#"{"a": [1, {"b": null}], "c": "é"}"#, r#"{"a\u0062": "\n", "b": -1.5e3}"#];
        let wrong = [
            r#"{"a": 1, "a": 2}"#,
            r#"{"x": [{"a": 1, "\u0061": 2}]}"#,
            r#"{"a": 1e999}"#,
            r#"{"a": "\ud800"}"#,
            r#"{"a": [[[1]]]}"#,
            r#"{"a": "12345678901"}"#,
            r#"{"a": ["123456789", "123456789", "123456789", "123456789", "12345"]}"#,
            r#"{"a": 01}"#,
            r#"{"a": tru}"#,
            r#"{"a": 1,}"#,
            r#"{"a"}"#,
            r#"{a: 1}"#,
            "[1]",
            "\"text\"",
            "7",
            "{\"a\": \"\t\"}",
        ];
        for args in fine {
            assert_eq!(said(args, &limits), Ok(args.to_owned()));
        }
        for args in fine.into_iter().chain(wrong) {
            assert_eq!(said(args, &limits), said_in_a_request(args, &limits), "{args}");
        }
        for args in wrong {
            assert!(said(args, &limits).is_err(), "{args}");
        }
    }

    #[test]
    fn what_a_request_would_mend_is_refused_and_no_id_is_found_in_arguments() {
        let limits = Limits::default();
        let error = read_args(b"{\"task_id\": 7,\n\"a\": 1}", &limits).unwrap_err();
        assert_eq!(error.id, None);
        assert_eq!(
            error.to_string(),
            "args: expected the arguments on one line, got a line break; put a space in its place (line 1, column \
             15)"
        );
        assert_eq!(read_args(b" {} \n", &limits).unwrap().get(), "{}", "around them it does no harm");
        for (bytes, expected) in [
            (&b""[..], "args: expected an object, got nothing (line 1, column 1)"),
            (b"{} {}", "args: expected nothing after the request, got '{' (line 1, column 4)"),
            (b"{\"a\": \xff}", "args.a: expected UTF-8, got the byte 0xff (line 1, column 7)"),
        ] {
            assert_eq!(read_args(bytes, &limits).unwrap_err().to_string(), expected);
        }
    }
}
