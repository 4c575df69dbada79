//! What stands behind the question mark of an address: names with values, each known and at most once.
//!
//! A name that is not known is refused rather than passed over, because a filter that is mistyped would show
//! everything. Values are only copied if they have escapes.

use super::problem::{Fault, Problem};
use super::routes::{Kind, Route};
use hyper::Uri;
use percent_encoding::percent_decode_str;
use std::borrow::Cow;
use std::time::Duration;

/// How many characters of a client's own words a message repeats.
const SHOWN_MAX: usize = 64;

/// The text behind the question mark.
#[derive(Clone, Copy)]
pub(super) struct Query<'a>(&'a str);

impl<'a> Query<'a> {
    pub(super) fn of(uri: &'a Uri) -> Self {
        Self(uri.query().unwrap_or_default())
    }

    /// Whether every name is one of the route's, and comes once.
    pub(super) fn check(self, route: &Route) -> Result<(), Box<Problem>> {
        for (at, (name, value)) in self.pairs().enumerate() {
            let name = decoded(name)?;
            let Some(parameter) = route.query().find(|parameter| parameter.name == name) else {
                let known: Vec<_> = route.query().map(|parameter| parameter.name).collect();
                let advice = match known.as_slice() {
                    [] => "this address takes none".to_owned(),
                    known => format!("known are {}", known.join(", ")),
                };
                return Err(bad(format!("unknown parameter {:?}; {advice}", cut(&name))));
            };
            if self.pairs().take(at).any(|(other, _)| decoded(other).is_ok_and(|other| other == name)) {
                return Err(bad(format!("{name}: expected it once, got it twice")));
            }
            if let Kind::Text(most) = parameter.kind
                && let Some(count) = Some(decoded(value)?.chars().count()).filter(|count| *count > most)
            {
                return Err(bad(format!("{name}: expected at most {most} characters, got {count}")));
            }
        }
        Ok(())
    }

    /// The value of a name, if it is there.
    pub(super) fn text(self, name: &str) -> Result<Option<Cow<'a, str>>, Box<Problem>> {
        let found = self.pairs().find(|(known, _)| decoded(known).is_ok_and(|known| known == name));
        found.map(|(_, value)| decoded(value)).transpose()
    }

    /// A whole number.
    pub(super) fn number(self, name: &str, least: u64, most: u64) -> Result<Option<u64>, Box<Problem>> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        let number =
            text.parse().ok().filter(|number| (least..=most).contains(number) && !text.starts_with('+'));
        let wrong =
            || bad(format!("{name}: expected a whole number from {least} to {most}, got {:?}", cut(&text)));
        number.map(Some).ok_or_else(wrong)
    }

    /// A time: `5s`, `500ms`, `2m`, or `5` for seconds.
    pub(super) fn duration(self, name: &str) -> Result<Option<Duration>, Box<Problem>> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        let wrong = || bad(format!("{name}: expected a time like 5s, 500ms or 2m, got {:?}", cut(&text)));
        read_duration(&text).map(Some).ok_or_else(wrong)
    }

    fn pairs(self) -> impl Iterator<Item = (&'a str, &'a str)> {
        let parts = self.0.split('&').filter(|part| !part.is_empty());
        parts.map(|part| part.split_once('=').unwrap_or((part, "")))
    }
}

pub(super) fn bad(detail: String) -> Box<Problem> {
    Problem::new(Fault::BadQuery, detail)
}

/// The beginning of a client's own words.
pub(super) fn cut(text: &str) -> &str {
    text.char_indices().nth(SHOWN_MAX).map_or(text, |(end, _)| &text[..end])
}

fn decoded(text: &str) -> Result<Cow<'_, str>, Box<Problem>> {
    let wrong = || bad(format!("expected UTF-8 behind the escapes of {:?}, got other bytes", cut(text)));
    if !text.contains(['%', '+']) {
        return Ok(Cow::Borrowed(text));
    }
    let spaced = text.replace('+', " ");
    let decoded = percent_decode_str(&spaced).decode_utf8().map_err(|_| wrong())?;
    Ok(Cow::Owned(decoded.into_owned()))
}

fn read_duration(text: &str) -> Option<Duration> {
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().ok()?;
    let milliseconds = match &text[digits..] {
        "ms" => 1,
        "s" | "" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    Some(Duration::from_millis(number.saturating_mul(milliseconds)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(problem: &Problem) -> String {
        let mut out = Vec::new();
        problem.write_json(None, &mut out);
        serde_json::from_slice::<serde_json::Value>(&out).unwrap()["detail"].as_str().unwrap().to_owned()
    }

    #[test]
    fn values_are_read_and_mistakes_are_named() {
        let query = Query("wait=5s&limit=10&q=a%20b+c&bad=%ff&limit2=x&neg=-1&plus=%2B1");
        assert_eq!(query.duration("wait").unwrap(), Some(Duration::from_secs(5)));
        assert_eq!(query.number("limit", 1, 10).unwrap(), Some(10));
        assert_eq!(query.text("q").unwrap().unwrap(), "a b c");
        assert_eq!(query.text("none").unwrap(), None);
        let error = message(&query.number("limit", 1, 9).unwrap_err());
        assert_eq!(error, "limit: expected a whole number from 1 to 9, got \"10\"");
        assert!(query.text("bad").is_err());
        for name in ["limit2", "neg", "plus"] {
            assert!(query.number(name, 0, 9).is_err(), "{name}");
        }
        let error = message(&query.duration("q").unwrap_err());
        assert_eq!(error, "q: expected a time like 5s, 500ms or 2m, got \"a b c\"");
    }

    #[test]
    fn durations_have_a_unit_or_are_seconds() {
        let milliseconds = |text| read_duration(text).map(|time| time.as_millis());
        assert_eq!(milliseconds("500ms"), Some(500));
        assert_eq!(milliseconds("5"), Some(5000));
        assert_eq!(milliseconds("2m"), Some(120_000));
        assert_eq!(milliseconds("0"), Some(0));
        assert_eq!(milliseconds("18446744073709551615h"), Some(u128::from(u64::MAX)));
        for text in ["", "s", "-1s", "1.5s", "5 s", "5d", "18446744073709551616"] {
            assert_eq!(read_duration(text), None, "{text}");
        }
    }
}
