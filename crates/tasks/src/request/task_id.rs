//! What a client calls its task: a number or a string, kept apart and given back as it came.
//!
//! A client that numbers its tasks gets numbers back, also above 2⁵³, where a JSON reader in another language
//! may round them. `17` and `"17"` are two different ids: to make one of them would join tasks that their
//! senders keep apart. Ids that the daemon gives look like `"t17"` and are its own: no client can choose one,
//! so no client can be given another's result by chance.
//!
//! Not here: whether an id is taken, and whose it is; that is known where results are kept.

use serde::{Serialize, Serializer};
use std::fmt;

/// The most bytes an id may have if it is a string.
pub const TASK_ID_BYTES_MAX: usize = 128;

/// The id of a task. It prints as JSON: `17` or `"seventeen"`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TaskId {
    /// A whole number.
    Number(u64),
    /// A string of 1 to 128 bytes without control characters.
    Name(Box<str>),
    /// Given by the daemon to a request without an id; it prints as `"t17"`.
    Assigned(u64),
}

impl TaskId {
    /// Reads what a person or another program wrote: a JSON number or string, or a name without quotes.
    /// None if it is no id.
    pub fn parse(text: &str) -> Option<Self> {
        Self::from_json(text).or_else(|| {
            let is_name = !text.starts_with('"') && is_label(text, TASK_ID_BYTES_MAX);
            is_name.then(|| Self::from_name(text.to_owned()))
        })
    }

    fn from_name(name: String) -> Self {
        let digits = name.strip_prefix('t').filter(|digits| {
            let canonical = !digits.starts_with('0') || *digits == "0";
            !digits.is_empty() && canonical && digits.bytes().all(|byte| byte.is_ascii_digit())
        });
        match digits.and_then(|digits| digits.parse().ok()) {
            Some(number) => Self::Assigned(number),
            None => Self::Name(name.into()),
        }
    }

    /// Reads a JSON value; none if it is no id.
    pub(crate) fn from_json(json: &str) -> Option<Self> {
        if json.starts_with('"') {
            let name: String = serde_json::from_str(json).ok()?;
            is_label(&name, TASK_ID_BYTES_MAX).then(|| Self::from_name(name))
        } else {
            // `parse` would take a plus sign, which JSON does not know.
            let digits = !json.is_empty() && json.bytes().all(|byte| byte.is_ascii_digit());
            let leading_zero = json.len() > 1 && json.starts_with('0');
            if digits && !leading_zero { json.parse().ok().map(Self::Number) } else { None }
        }
    }
}

impl Serialize for TaskId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Number(number) => serializer.serialize_u64(*number),
            Self::Name(name) => serializer.serialize_str(name),
            Self::Assigned(number) => serializer.collect_str(&format_args!("t{number}")),
        }
    }
}

/// Whether `text` may stand in a log line or a file name list: not empty, not long, no control characters.
pub(super) fn is_label(text: &str, bytes_max: usize) -> bool {
    (1..=bytes_max).contains(&text.len()) && !text.chars().any(char::is_control)
}

impl fmt::Display for TaskId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(formatter, "{number}"),
            Self::Name(name) => formatter.write_str(&json_string(name)),
            Self::Assigned(number) => write!(formatter, "\"t{number}\""),
        }
    }
}

/// `text` as a JSON string, in quotes.
pub(super) fn json_string(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_prints_as_it_came() {
        for json in ["0", "17", "9007199254740993", "18446744073709551615", "\"17\"", r#""a \"b\" ü""#] {
            assert_eq!(TaskId::from_json(json).unwrap().to_string(), json);
        }
        assert_ne!(TaskId::from_json("17"), TaskId::from_json("\"17\""));
        let longest = format!("\"{}\"", "x".repeat(TASK_ID_BYTES_MAX));
        assert_eq!(TaskId::from_json(&longest).unwrap().to_string(), longest);
    }

    #[test]
    fn the_daemons_own_ids_are_told_from_names() {
        assert_eq!(TaskId::from_json("\"t17\""), Some(TaskId::Assigned(17)));
        assert_eq!(TaskId::Assigned(17).to_string(), "\"t17\"");
        for name in ["t", "t017", "tx", "T17", "t17 ", "t99999999999999999999"] {
            assert_eq!(TaskId::parse(name), Some(TaskId::Name(name.into())), "{name}");
        }
        assert_eq!(TaskId::parse("t17"), Some(TaskId::Assigned(17)));
        assert_eq!(TaskId::parse("17"), Some(TaskId::Number(17)));
        assert_eq!(TaskId::parse("\"17\""), Some(TaskId::Name("17".into())));
        assert_eq!(TaskId::parse("job-1"), Some(TaskId::Name("job-1".into())));
        assert_eq!(TaskId::parse("\"unended"), None);
    }

    #[test]
    fn what_is_no_id_is_none() {
        let long = format!("\"{}\"", "x".repeat(TASK_ID_BYTES_MAX + 1));
        for json in
            ["", "-1", "-0", "+1", "01", "1.0", "1e3", "18446744073709551616", "\"\"", "null", "[1]", &long]
        {
            assert_eq!(TaskId::from_json(json), None, "{json}");
        }
        assert_eq!(TaskId::from_json(r#""a\nb""#), None, "control characters");
        assert_eq!(TaskId::from_json(r#""\ud800""#), None, "half a character");
    }
}
