//! Reading the arguments of a built-in handler, and saying exactly what is wrong with them.
//!
//! A request was checked as JSON before; here every argument is asked for by name and kind. Names that the
//! handler does not know are mistakes, because a mistyped option that is silently ignored is worse than a
//! refusal. `null` is the same as leaving an argument out, as it is everywhere in a request.
//!
//! Not here: what an argument means.

use crate::error::{ErrorCode, TaskFailure};
use crate::nearest::{nearest, shown};
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::fmt::Display;

/// The longest number that a message shows.
const NUMBER_SHOWN_MAX: usize = 40;

/// The arguments of one call by name.
pub(super) struct Arguments<'a>(BTreeMap<String, &'a RawValue>);

impl<'a> Arguments<'a> {
    /// Takes the arguments apart. `known` are the names that the handler understands.
    pub(super) fn read(handler: &str, args: &'a RawValue, known: &[&str]) -> Result<Self, TaskFailure> {
        let mut values: BTreeMap<String, &'a RawValue> =
            serde_json::from_str(args.get()).map_err(|_| wrong("args", "an object", named(args.get())))?;
        if let Some(name) = values.keys().find(|name| !known.contains(&name.as_str())) {
            let advice = match nearest(name, known.iter().copied()) {
                Some(near) => format!("did you mean {near}?"),
                None => format!("expected are {}", known.join(", ")),
            };
            return Err(bad(format!("args: {handler} has no argument {}; {advice}", shown(name))));
        }
        values.retain(|_, value| value.get() != "null");
        Ok(Self(values))
    }

    /// The value of an argument as it was written.
    pub(super) fn raw(&self, name: &str) -> Option<&'a RawValue> {
        self.0.get(name).copied()
    }

    /// An argument that is a string.
    pub(super) fn string(&self, name: &str) -> Result<Option<String>, TaskFailure> {
        self.read_as(name, "a string", |json| serde_json::from_str(json).ok())
    }

    /// An argument that must be there and is a string.
    pub(super) fn needed_string(&self, name: &str) -> Result<String, TaskFailure> {
        self.string(name)?.ok_or_else(|| wrong(&path(name), "a string", "nothing"))
    }

    /// An argument that must be there under one of two names, and is a string. Says which name it was.
    pub(super) fn string_by_either(
        &self,
        names: [&'static str; 2],
    ) -> Result<(&'static str, String), TaskFailure> {
        let [first, second] = names;
        let amount = match (self.string(first)?, self.string(second)?) {
            (Some(text), None) => return Ok((first, text)),
            (None, Some(text)) => return Ok((second, text)),
            (Some(_), Some(_)) => "both",
            (None, None) => "neither",
        };
        Err(bad(format!("args: expected either {first} or {second}, got {amount}")))
    }

    /// An argument that is a whole number within bounds.
    pub(super) fn whole_number(&self, name: &str, min: u64, max: u64) -> Result<Option<u64>, TaskFailure> {
        let expected = format!("a whole number from {min} to {max}");
        self.read_as(name, &expected, |json| json.parse().ok().filter(|number| (min..=max).contains(number)))
    }

    /// An argument that counts bytes.
    pub(super) fn bytes(&self, name: &str) -> Result<Option<usize>, TaskFailure> {
        let number = self.whole_number(name, 0, i64::MAX as u64)?;
        // A count that no memory could hold lies outside every region and every file, as the largest does.
        Ok(number.map(|number| usize::try_from(number).unwrap_or(usize::MAX)))
    }

    /// An argument that is true or false; false if it is not there.
    pub(super) fn switch(&self, name: &str) -> Result<bool, TaskFailure> {
        let value = self.read_as(name, "true or false", |json| json.parse().ok())?;
        Ok(value.unwrap_or(false))
    }

    /// An argument that is one of a few words, each of which stands for something.
    pub(super) fn word<T: Copy>(&self, name: &str, meanings: &[(&str, T)]) -> Result<Option<T>, TaskFailure> {
        let words: Vec<_> = meanings.iter().map(|(word, _)| format!("{word:?}")).collect();
        let (last, others) = words.split_last().expect("there is a word to choose");
        let expected = format!("{} or {last}", others.join(", "));
        let meaning = |word: &str| meanings.iter().find(|(known, _)| *known == word).map(|(_, means)| *means);
        self.read_as(name, &expected, |json| meaning(&serde_json::from_str::<String>(json).ok()?))
    }

    fn read_as<T>(
        &self,
        name: &str,
        expected: &str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, TaskFailure> {
        let Some(value) = self.raw(name) else { return Ok(None) };
        match read(value.get()) {
            Some(value) => Ok(Some(value)),
            None => Err(wrong(&path(name), expected, named(value.get()))),
        }
    }
}

fn path(name: &str) -> String {
    format!("args.{name}")
}

/// Arguments that the handler does not accept.
pub(super) fn bad(message: String) -> TaskFailure {
    TaskFailure::new(ErrorCode::BadArguments, message)
}

/// `args.x: expected …, got …`.
pub(super) fn wrong(path: &str, expected: &str, got: impl Display) -> TaskFailure {
    bad(format!("{path}: expected {expected}, got {got}"))
}

/// What a JSON value is, for the end of a message.
pub(super) fn named(json: &str) -> String {
    match json.as_bytes().first() {
        Some(b'{') => "an object".to_owned(),
        Some(b'[') => "an array".to_owned(),
        Some(b'"') => match serde_json::from_str::<String>(json) {
            Ok(text) => format!("the string {}", shown(&text)),
            Err(_) => "a string with half a character (a lone surrogate)".to_owned(),
        },
        Some(b'-' | b'0'..=b'9') if json.len() <= NUMBER_SHOWN_MAX => format!("the number {json}"),
        Some(b'-' | b'0'..=b'9') => format!("a number of {} digits", json.len()),
        _ => json.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).unwrap()
    }

    /// What is said of these arguments by somebody who asks for all of them.
    fn said(json: &str) -> String {
        let args = raw(json);
        let ask = || {
            let arguments = Arguments::read(
                "http_get",
                &args,
                &["url", "timeout_ms", "stream", "mode", "region", "from"],
            )?;
            arguments.needed_string("url")?;
            arguments.whole_number("timeout_ms", 1, 1000)?;
            arguments.bytes("offset")?;
            arguments.switch("stream")?;
            arguments.word("mode", &[("create", 1), ("append", 2), ("replace", 3)])?;
            arguments.string_by_either(["region", "from"])
        };
        match ask() {
            Ok((name, text)) => format!("{name}={text}"),
            Err(failure) => {
                assert_eq!(failure.code, ErrorCode::BadArguments);
                failure.message
            }
        }
    }

    #[test]
    fn a_wrong_argument_is_named_with_what_was_expected_and_what_came() {
        for (json, message) in [
            (r#"{"url":3}"#, "args.url: expected a string, got the number 3"),
            (r#"{}"#, "args.url: expected a string, got nothing"),
            (r#"{"url":null}"#, "args.url: expected a string, got nothing"),
            (r#"{"url":{"a":1}}"#, "args.url: expected a string, got an object"),
            (r#"{"url":[1]}"#, "args.url: expected a string, got an array"),
            (r#"{"url":true}"#, "args.url: expected a string, got true"),
            (
                r#"{"url":"x","timeout_ms":0}"#,
                "args.timeout_ms: expected a whole number from 1 to 1000, got the number 0",
            ),
            (
                r#"{"url":"x","timeout_ms":1.5}"#,
                "args.timeout_ms: expected a whole number from 1 to 1000, got the number 1.5",
            ),
            (
                r#"{"url":"x","timeout_ms":"9"}"#,
                "args.timeout_ms: expected a whole number from 1 to 1000, got the string \"9\"",
            ),
            (r#"{"url":"x","stream":1}"#, "args.stream: expected true or false, got the number 1"),
            (
                r#"{"url":"x","mode":"apend"}"#,
                "args.mode: expected \"create\", \"append\" or \"replace\", got the string \"apend\"",
            ),
            (r#"{"url":"x"}"#, "args: expected either region or from, got neither"),
            (r#"{"url":"x","region":"a","from":"b"}"#, "args: expected either region or from, got both"),
            (r#"{"url":"x","region":"a","from":null}"#, "region=a"),
            (r#"{"url":"x","from":"b","mode":"append","stream":false,"timeout_ms":1000}"#, "from=b"),
        ] {
            assert_eq!(said(json), message, "{json}");
        }
        let digits = "1".repeat(41);
        assert_eq!(
            said(&format!(r#"{{"url":{digits}}}"#)),
            "args.url: expected a string, got a number of 41 digits"
        );
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_nearest_or_with_all() {
        assert_eq!(said(r#"{"ulr":"x"}"#), "args: http_get has no argument \"ulr\"; did you mean url?");
        assert_eq!(
            said(r#"{"url":"x","timeout":5}"#),
            "args: http_get has no argument \"timeout\"; did you mean timeout_ms?"
        );
        assert_eq!(
            said(r#"{"colour":"red"}"#),
            "args: http_get has no argument \"colour\"; expected are url, timeout_ms, stream, mode, \
             region, from"
        );
    }
}
