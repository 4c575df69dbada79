//! What a line from a process means: a partial result, progress, a checkpoint, a line of its log, or its
//! answer.
//!
//! A line is a JSON object with exactly one of the six names, and with `task_id` if the program likes to
//! repeat it. Everything else is refused, with what was expected and what came: a program that says something
//! else has lost its place, and nobody knows which task its next words would belong to.
//!
//! Not here: what becomes of a program that is refused (`fault.rs`).

use crate::error::{ErrorCode, TaskFailure};
use crate::nearest::{nearest, shown};
use crate::request::TaskId;
use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// The longest error message that is passed on, in bytes.
const MESSAGE_BYTES_MAX: usize = 16 * 1024;
/// How far above 1 progress may be, because sums of fractions are.
const PROGRESS_SLACK: f64 = 1e-9;
const NAMES: [&str; 7] = ["partial", "progress", "checkpoint", "log", "result", "error", "task_id"];
/// The codes that a program may give its errors. All others are about millpond, and it knows better.
const CODES_ALLOWED: [ErrorCode; 6] = [
    ErrorCode::HandlerError,
    ErrorCode::BadArguments,
    ErrorCode::NotAllowed,
    ErrorCode::OutOfMemory,
    ErrorCode::TooLarge,
    ErrorCode::UnknownSymbol,
];

/// One line.
#[derive(Debug)]
pub(super) enum Answer<'line> {
    Partial(&'line RawValue),
    Progress(f64),
    Checkpoint(&'line RawValue),
    Log(Cow<'line, str>),
    Result(&'line RawValue),
    Error(TaskFailure),
}

/// Whether a line says nothing at all. Such lines are passed over.
pub(super) fn is_blank(line: &[u8]) -> bool {
    line.iter().all(u8::is_ascii_whitespace)
}

/// Reads one line, which must not be blank.
pub(super) fn parse<'line>(line: &'line [u8], task: &TaskId) -> Result<Answer<'line>, String> {
    let text = str::from_utf8(line).map_err(|_| refusal("UTF-8", &String::from_utf8_lossy(line)))?;
    let Fields { task_id, said } = serde_json::from_str(text).map_err(|error| match error.classify() {
        // What our own visitor has to say is a sentence already.
        serde_json::error::Category::Data if text.trim_start().starts_with('{') => without_place(&error),
        _ => refusal("a JSON object on one line", text),
    })?;
    if let Some(given) = task_id {
        check_id(given, task)?;
    }
    let (name, value) = said.ok_or_else(|| refusal(ONE_OF, text))?;
    let expected = |what: &str| format!("{name}: expected {what}, got {}", shown(value.get()));
    match name {
        "partial" => Ok(Answer::Partial(value)),
        "result" => Ok(Answer::Result(value)),
        "checkpoint" => Ok(Answer::Checkpoint(value)),
        "progress" => match serde_json::from_str::<f64>(value.get()) {
            Ok(fraction) if (0.0..=1.0 + PROGRESS_SLACK).contains(&fraction) => {
                Ok(Answer::Progress(fraction.min(1.0)))
            }
            _ => Err(expected("a number from 0 to 1")),
        },
        "log" => text_of(value).map(Answer::Log).ok_or_else(|| expected("a string")),
        _ => error_of(value).map(Answer::Error).ok_or_else(|| {
            expected("a string or an object with a string \"message\" and perhaps a \"code\"")
        }),
    }
}

const ONE_OF: &str = "one of \"partial\", \"progress\", \"checkpoint\", \"log\", \"result\" and \"error\"";

fn refusal(expected: &str, came: &str) -> String {
    format!("expected {expected}, got {}", shown(came))
}

fn without_place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" at line ").map_or(text.clone(), |(words, _)| words.to_owned())
}

fn check_id(given: &RawValue, task: &TaskId) -> Result<(), String> {
    let expected = task.to_string();
    // The same id may be written with other escapes.
    let same = given.get() == expected
        || serde_json::from_str::<Value>(given.get()).ok() == serde_json::from_str(&expected).ok();
    if same {
        return Ok(());
    }
    Err(format!("task_id: expected {expected}, which is the task it was given, got {}", shown(given.get())))
}

fn text_of(value: &RawValue) -> Option<Cow<'_, str>> {
    serde_json::from_str::<&str>(value.get())
        .map(Cow::Borrowed)
        .or_else(|_| serde_json::from_str::<String>(value.get()).map(Cow::Owned))
        .ok()
}

fn error_of(value: &RawValue) -> Option<TaskFailure> {
    let (code, message) = match serde_json::from_str(value.get()).ok()? {
        Value::String(message) => (None, message),
        Value::Object(mut object) => {
            let Some(Value::String(message)) = object.remove("message") else { return None };
            (object.remove("code"), message)
        }
        _ => return None,
    };
    let known = match &code {
        Some(Value::String(name)) => ErrorCode::from_name(name),
        Some(Value::Number(number)) => {
            number.as_i64().and_then(|number| ErrorCode::from_number(number.try_into().ok()?))
        }
        _ => None,
    };
    let known = known.filter(|known| CODES_ALLOWED.contains(known));
    // A code of the program's own is for whoever reads the message.
    let message = match (known, code) {
        (None, Some(Value::String(own))) => format!("{own}: {message}"),
        (None, Some(own)) if !own.is_null() => format!("{own}: {message}"),
        _ => message,
    };
    Some(TaskFailure::new(known.unwrap_or(ErrorCode::HandlerError), cut(message)))
}

fn cut(mut message: String) -> String {
    if message.len() > MESSAGE_BYTES_MAX {
        let end = (0..=MESSAGE_BYTES_MAX).rev().find(|end| message.is_char_boundary(*end));
        message.truncate(end.unwrap_or_default());
        message.push('…');
    }
    message
}

/// The names of a line and their values, as they were written.
struct Fields<'line> {
    task_id: Option<&'line RawValue>,
    said: Option<(&'static str, &'line RawValue)>,
}

impl<'line> Deserialize<'line> for Fields<'line> {
    fn deserialize<D: Deserializer<'line>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FieldsVisitor)
    }
}

struct FieldsVisitor;

impl<'line> Visitor<'line> for FieldsVisitor {
    type Value = Fields<'line>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON object")
    }

    fn visit_map<M: MapAccess<'line>>(self, mut map: M) -> Result<Self::Value, M::Error> {
        let mut fields = Fields { task_id: None, said: None };
        while let Some(key) = map.next_key::<Cow<'line, str>>()? {
            let Some(name) = NAMES.into_iter().find(|name| *name == key) else {
                let guess = nearest(&key, NAMES).map(|name| format!("; did you mean {name:?}?"));
                let guess = guess.unwrap_or_default();
                return Err(de::Error::custom(format!("expected {ONE_OF}, got {}{guess}", shown(&key))));
            };
            let value = map.next_value()?;
            let earlier = match name {
                "task_id" => fields.task_id.replace(value).map(|_| name),
                _ => fields.said.replace((name, value)).map(|(earlier, _)| earlier),
            };
            if let Some(earlier) = earlier {
                let both = format!("expected {ONE_OF}, got {earlier:?} and {name:?}");
                return Err(de::Error::custom(both));
            }
        }
        Ok(fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hash::BuildHasher;

    fn read(line: &str) -> Result<String, String> {
        parse(line.as_bytes(), &TaskId::Number(17)).map(|answer| match answer {
            Answer::Partial(value) => format!("partial {value}"),
            Answer::Progress(fraction) => format!("progress {fraction}"),
            Answer::Checkpoint(value) => format!("checkpoint {value}"),
            Answer::Log(text) => format!("log {text}"),
            Answer::Result(value) => format!("result {value}"),
            Answer::Error(failure) => failure.to_string(),
        })
    }

    #[test]
    fn every_kind_of_line_is_read_as_it_was_written() {
        let said = |line| read(line).unwrap();
        assert_eq!(said(r#"{"partial": [1, 1.50]}"#), "partial [1, 1.50]");
        assert_eq!(said(r#" {"progress": 0.4, "task_id": 17} "#), "progress 0.4");
        assert_eq!(said("{\"progress\": 1}\r"), "progress 1");
        assert_eq!(said(r#"{"checkpoint": {"at": 7}}"#), r#"checkpoint {"at": 7}"#);
        assert_eq!(said(r#"{"progress": 1.0000000000000002}"#), "progress 1");
        assert_eq!(said(r#"{"log": "a \"b\" \u00fc"}"#), "log a \"b\" ü");
        assert_eq!(said(r#"{"result": null}"#), "result null");
        assert_eq!(said(r#"{"res\u0075lt": 18446744073709551616}"#), "result 18446744073709551616");
    }

    #[test]
    fn errors_have_a_message_and_may_have_a_code() {
        let said = |line| read(line).unwrap();
        assert_eq!(said(r#"{"error": "no such page"}"#), "handler-error (-109): no such page");
        assert_eq!(said(r#"{"error": {"message": "m"}}"#), "handler-error (-109): m");
        assert_eq!(said(r#"{"error": {"message": "m", "code": null}}"#), "handler-error (-109): m");
        assert_eq!(
            said(r#"{"error": {"code": "bad-arguments", "message": "args.url: expected a string"}}"#),
            "bad-arguments (-108): args.url: expected a string"
        );
        assert_eq!(said(r#"{"error": {"code": -107, "message": "m", "more": 1}}"#), "not-allowed (-107): m");
        assert_eq!(said(r#"{"error": {"code": "E42", "message": "m"}}"#), "handler-error (-109): E42: m");
        assert_eq!(said(r#"{"error": {"code": 404, "message": "m"}}"#), "handler-error (-109): 404: m");
        assert_eq!(
            said(r#"{"error": {"code": "cancelled", "message": "m"}}"#),
            "handler-error (-109): cancelled: m",
            "only millpond knows what was cancelled"
        );
        let long = format!(r#"{{"error": "{}"}}"#, "ü".repeat(MESSAGE_BYTES_MAX));
        assert!(said(&long).len() < MESSAGE_BYTES_MAX + 100);
    }

    #[test]
    fn a_refusal_says_what_was_expected_and_what_came() {
        let refused = |line| read(line).unwrap_err();
        assert_eq!(refused("hello"), r#"expected a JSON object on one line, got "hello""#);
        assert_eq!(refused(r#"{"result": 1"#), r#"expected a JSON object on one line, got "{\"result\": 1""#);
        assert_eq!(refused("[1]"), r#"expected a JSON object on one line, got "[1]""#);
        assert_eq!(refused(r#"{"result": 1} x"#), {
            r#"expected a JSON object on one line, got "{\"result\": 1} x""#
        });
        let one_of =
            r#"expected one of "partial", "progress", "checkpoint", "log", "result" and "error", got "#;
        assert_eq!(refused("{}"), format!("{one_of}\"{{}}\""));
        assert_eq!(refused(r#"{"task_id": 17}"#), format!("{one_of}{:?}", r#"{"task_id": 17}"#));
        assert_eq!(refused(r#"{"reslut": 1}"#), format!(r#"{one_of}"reslut"; did you mean "result"?"#));
        assert_eq!(refused(r#"{"partial": 1, "result": 2}"#), format!(r#"{one_of}"partial" and "result""#));
        assert_eq!(refused(r#"{"result": 1, "result": 2}"#), format!(r#"{one_of}"result" and "result""#));
        assert_eq!(refused(r#"{"progress": 40}"#), r#"progress: expected a number from 0 to 1, got "40""#);
        assert_eq!(refused(r#"{"log": 1}"#), r#"log: expected a string, got "1""#);
        assert_eq!(
            refused(r#"{"error": null}"#),
            "error: expected a string or an object with a string \"message\" and perhaps a \"code\", got \
             \"null\""
        );
        let bytes = parse(b"{\"result\": \"\xff\"}", &TaskId::Number(17)).unwrap_err();
        assert!(bytes.starts_with("expected UTF-8, got "), "{bytes}");
    }

    #[test]
    fn an_answer_for_another_task_is_refused() {
        let expected = "task_id: expected 17, which is the task it was given, got ";
        assert_eq!(read(r#"{"task_id": 18, "result": 1}"#).unwrap_err(), format!("{expected}\"18\""));
        assert_eq!(
            read(r#"{"task_id": "17", "result": 1}"#).unwrap_err(),
            format!("{expected}{:?}", "\"17\"")
        );
        let named = TaskId::Name("ä".into());
        assert!(
            parse(br#"{"task_id": "\u00e4", "result": 1}"#, &named).is_ok(),
            "other escapes, the same id"
        );
        assert!(parse(br#"{"task_id": "a", "result": 1}"#, &named).is_err());
    }

    /// Answers with a few bytes exchanged: none may panic, and whatever is taken has one of the six names in
    /// it.
    #[test]
    fn no_line_is_too_strange() {
        const GOOD: [&str; 6] = [
            r#"{"partial": [1, {"a": null}], "task_id": 17}"#,
            r#"{"progress": 0.25}"#,
            r#"{"checkpoint": [7]}"#,
            r#"{"log": "a \u00fc b", "task_id": 17}"#,
            r#"{"result": "x"}"#,
            r#"{"error": {"code": -108, "message": "m"}}"#,
        ];
        const STRANGE: &[u8] = b"{}[]\":,\\u019e-. \xff\0";
        let seed = std::hash::RandomState::new().hash_one(0_u8);
        let mut random = seed;
        let mut below = |bound: usize| {
            random = random.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
            (random >> 33) as usize % bound
        };
        let mut taken = 0;
        for _ in 0..100_000 {
            let mut line = GOOD[below(GOOD.len())].as_bytes().to_vec();
            for _ in 0..below(4) {
                let at = below(line.len());
                line[at] = STRANGE[below(STRANGE.len())];
            }
            let text = String::from_utf8_lossy(&line);
            if parse(&line, &TaskId::Number(17)).is_ok() {
                taken += 1;
                assert!(text.contains('\\') || NAMES[..6].iter().any(|name| text.contains(name)), "{text:?}");
            }
        }
        assert!((1..100_000).contains(&taken), "{taken} were taken, seed {seed}");
    }

    #[test]
    fn depth_costs_no_stack() {
        let deep = format!(r#"{{"result": {}{}}}"#, "[".repeat(1_000_000), "]".repeat(1_000_000));
        assert!(matches!(parse(deep.as_bytes(), &TaskId::Number(1)), Ok(Answer::Result(_))));
        let deep_error = deep.replace("result", "error");
        assert!(parse(deep_error.as_bytes(), &TaskId::Number(1)).is_err());
    }
}
