//! What one field may say: numbers within bounds, labels, names, and the messages when it says something
//! else.
//!
//! A value is still the text it came in, with its place. Numbers are read from that text, so that none is
//! rounded on the way; strings are read by `serde_json`.
//!
//! Not here: which fields there are (`fields.rs`).

use super::problem::Problem;
use super::task_id::{TASK_ID_BYTES_MAX, TaskId, is_label};
use jiff::Timestamp;
use millpond::Priority;

const SHOWN_CHARACTERS_MAX: usize = 40;
/// The most bytes a handler's name may have.
pub(super) const HANDLER_BYTES_MAX: usize = 64;

/// The last moment of the year 9999, beyond which RFC 3339 has no dates.
const MOMENT_MS_MAX: u64 = 253_402_300_799_999;

/// The text of one JSON value whose syntax is known to be right, and where it begins in the request.
#[derive(Clone, Copy)]
pub(super) struct Value<'a> {
    pub(super) json: &'a str,
    pub(super) offset: usize,
}

impl Value<'_> {
    /// `expected …, got …`, at this value.
    pub(super) fn unexpected(&self, expected: &str) -> Problem {
        Problem::invalid(self.offset, format!("expected {expected}, got {}", self.named()))
    }

    /// What the value is, for the end of a message.
    fn named(&self) -> String {
        match self.json.as_bytes().first() {
            Some(b'{') => "an object".to_owned(),
            Some(b'[') => "an array".to_owned(),
            Some(b'"') => match serde_json::from_str::<String>(self.json) {
                Ok(text) => format!("the string {}", shown(&text)),
                Err(_) => "a string with half a character (a lone surrogate)".to_owned(),
            },
            Some(b'-' | b'0'..=b'9') => format!("the number {}", cut(self.json).escape_debug()),
            _ if ["true", "false", "null"].contains(&self.json) => self.json.to_owned(),
            // Only a request that is no JSON at all comes here.
            _ => shown(self.json),
        }
    }

    pub(super) fn whole_number(&self, min: u64, max: u64) -> Result<u64, Problem> {
        // The syntax is right, so `parse` fails on a sign, a fraction, an exponent, a size, and on what is no
        // number.
        let number = self.json.parse().ok().filter(|number| (min..=max).contains(number));
        number.ok_or_else(|| self.unexpected(&format!("a whole number from {min} to {max}")))
    }

    fn string(&self) -> Option<String> {
        serde_json::from_str(self.json).ok()
    }

    /// A string of 1 to `bytes_max` bytes that can stand in a log.
    pub(super) fn label(&self, bytes_max: usize) -> Result<Box<str>, Problem> {
        let label = self.string().filter(|text| is_label(text, bytes_max));
        let expected = || format!("a string of 1 to {bytes_max} bytes without control characters");
        label.map(Into::into).ok_or_else(|| self.unexpected(&expected()))
    }

    pub(super) fn task_id(&self) -> Result<TaskId, Problem> {
        let expected = || {
            let max = u64::MAX;
            format!(
                "a whole number from 0 to {max}, or a string of 1 to {TASK_ID_BYTES_MAX} bytes \
                 without control characters"
            )
        };
        let id = TaskId::from_json(self.json).ok_or_else(|| self.unexpected(&expected()))?;
        if matches!(id, TaskId::Assigned(_)) {
            return Err(self.unexpected("an id other than t and digits, which the daemon gives itself"));
        }
        Ok(id)
    }

    pub(super) fn handler_name(&self) -> Result<Box<str>, Problem> {
        let allowed = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'.' | b'-');
        let is_name = |name: &str| (1..=HANDLER_BYTES_MAX).contains(&name.len()) && name.bytes().all(allowed);
        // Without escapes, which nobody needs here, what stands between the quotes is the name.
        let inside = self.json.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        if let Some(name) = inside.filter(|name| is_name(name)) {
            return Ok(name.into());
        }
        let name = self.string().filter(|name| is_name(name));
        let expected =
            || format!("a name of 1 to {HANDLER_BYTES_MAX} characters out of a-z, 0-9, _, . and -");
        name.map(Into::into).ok_or_else(|| self.unexpected(&expected()))
    }

    /// A word, or a number in thirds: 0 to 84 is low, 85 to 170 normal, 171 to 255 high.
    pub(super) fn priority(&self) -> Result<Priority, Problem> {
        match (self.json, self.json.parse::<u8>()) {
            ("\"high\"", _) | (_, Ok(171..)) => Ok(Priority::High),
            ("\"normal\"", _) | (_, Ok(85..=170)) => Ok(Priority::Normal),
            ("\"low\"", _) | (_, Ok(0..=84)) => Ok(Priority::Low),
            _ => {
                Err(self
                    .unexpected("\"high\", \"normal\", \"low\" or a whole number from 0 (low) to 255 (high)"))
            }
        }
    }

    /// A moment: Unix time in milliseconds, or a text as RFC 3339 has it. In milliseconds of Unix time.
    pub(super) fn moment(&self) -> Result<u64, Problem> {
        let written = || {
            let moment: Timestamp = self.string()?.parse().ok()?;
            u64::try_from(moment.as_millisecond()).ok()
        };
        let moment = self.json.parse().ok().or_else(written);
        let expected = "a moment like \"2030-01-31T12:00:00Z\", or Unix time in milliseconds";
        moment.filter(|at| *at <= MOMENT_MS_MAX).ok_or_else(|| self.unexpected(expected))
    }

    /// A W3C trace context: version, trace, parent and flags in lower-case hexadecimal, ids not all zero.
    pub(super) fn traceparent(&self) -> Result<Box<str>, Problem> {
        let text = self.string().filter(|text| is_traceparent(text));
        text.map(Into::into).ok_or_else(|| {
            self.unexpected(
                "a trace context like \"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\"",
            )
        })
    }
}

fn is_traceparent(text: &str) -> bool {
    let hexadecimal = |part: &str| part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let parts: Vec<_> = text.splitn(5, '-').collect();
    let [version, trace, parent, flags] = parts[..] else { return false };
    let lengths = [version, trace, parent, flags].map(str::len) == [2, 32, 16, 2];
    let zero = |part: &str| part.bytes().all(|byte| byte == b'0');
    lengths && parts.iter().all(|part| hexadecimal(part)) && version != "ff" && !zero(trace) && !zero(parent)
}

/// A string in quotes for a message, cut if it is long.
pub(super) fn shown(text: &str) -> String {
    let short = cut(text);
    format!("{short:?}")
}

/// The beginning of a text, with a mark if something is missing.
pub(super) fn cut(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARACTERS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_fall_into_thirds() {
        let priority = |json| Value { json, offset: 0 }.priority().ok();
        for (json, expected) in [
            ("0", Priority::Low),
            ("84", Priority::Low),
            ("85", Priority::Normal),
            ("170", Priority::Normal),
            ("171", Priority::High),
            ("255", Priority::High),
        ] {
            assert_eq!(priority(json), Some(expected), "{json}");
        }
        for json in ["256", "-1", "1.5", "true", "\"0\"", "\"High\"", "{}"] {
            assert_eq!(priority(json), None, "{json}");
        }
    }

    #[test]
    fn a_moment_is_a_date_with_its_zone_or_milliseconds() {
        let moment = |json| Value { json, offset: 0 }.moment().ok();
        assert_eq!(moment("1767225600000"), Some(1_767_225_600_000));
        assert_eq!(moment("\"2026-01-01T00:00:00Z\""), Some(1_767_225_600_000));
        assert_eq!(moment("\"2026-01-01T02:00:00.250+02:00\""), Some(1_767_225_600_250));
        for json in
            ["\"2026-01-01\"", "\"tomorrow\"", "-1", "1.5", "253402300800000", "\"1767225600000\"", "{}"]
        {
            assert_eq!(moment(json), None, "{json}");
        }
    }

    #[test]
    fn a_trace_context_is_checked_part_by_part() {
        let good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        assert!(is_traceparent(good));
        for (from, to) in [("00-4b", "ff-4b"), ("4bf9", "4BF9"), ("-01", ""), ("-01", "-01-x"), ("-01", "-1")]
        {
            assert!(!is_traceparent(&good.replacen(from, to, 1)), "{from} to {to}");
        }
        assert!(!is_traceparent("00-00000000000000000000000000000000-00f067aa0ba902b7-01"));
        assert!(!is_traceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01"));
    }
}
