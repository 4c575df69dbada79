//! What a setting may be, and how it is read from what somebody wrote.
//!
//! A TOML file says whether something is a number or a text; the specification's file, the environment and
//! flags do not, so there the kind of the setting decides. Everything else is the same for all: the bounds,
//! the words that stand for a value (`auto`, `none`), and what is said about a mistake.
//!
//! Not here: which settings there are (`table.rs`), sizes and durations (`units.rs`).

use super::nats::{is_nats_url, is_queue};
use super::schedule::{read_cron, read_zone};
use super::table::Setting;
use super::units::{DURATION_FORMS, SIZE_FORMS, print_bytes, print_duration, read_bytes, read_duration};
use crate::nearest::{did_you_mean, shown};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use std::fmt;
use std::net::{Ipv6Addr, SocketAddr};
use std::time::Duration;

/// The longest line for people.
const SENTENCE_CHARACTERS_MAX: usize = 200;

/// What a setting may be, with the least and the most where it has bounds.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// A whole number.
    Count(u64, u64),
    /// A number.
    Fraction(f64, f64),
    /// A size in bytes.
    Bytes(u64, u64),
    /// A duration.
    Span(Duration, Duration),
    /// True or false.
    Switch,
    /// One of some names.
    OneOf(fn() -> Vec<&'static str>),
    /// The name of a handler.
    Name,
    /// What a function is called in a library.
    Symbol,
    /// An absolute path.
    Path,
    /// An address of this machine with a port.
    Address,
    /// An address of the web.
    Url,
    /// Servers of NATS.
    NatsUrl,
    /// A queue on such a server.
    Queue,
    /// Absolute paths.
    Paths,
    /// Hosts, with or without a port.
    Hosts,
    /// A program and its arguments.
    Command,
    /// Names with texts.
    Pairs,
    /// A line for people.
    Sentence,
    /// A JSON object, as a text.
    JsonObject,
    /// When something is due, as cron writes it.
    Cron,
    /// The name of a time zone.
    Zone,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(least, most) => write!(f, "a whole number from {least} to {most}"),
            Self::Fraction(least, most) => write!(f, "a number from {least} to {most}"),
            Self::Bytes(least, most) => {
                write!(f, "a size from {} to {}", print_bytes(*least), print_bytes(*most))
            }
            Self::Span(least, most) => {
                write!(f, "a duration from {} to {}", print_duration(*least), print_duration(*most))
            }
            Self::Switch => f.write_str("true or false"),
            Self::OneOf(names) => write!(f, "one of {}", names().join(", ")),
            Self::Name => f.write_str("a name of 1 to 64 of the letters a-z, 0-9, _, . and -"),
            Self::Symbol => f.write_str("a name of 1 to 255 of the letters a-z, A-Z, 0-9 and _"),
            Self::Path => f.write_str("an absolute path"),
            Self::Address => f.write_str("an address with a port"),
            Self::Url => f.write_str("a URL"),
            Self::NatsUrl => f.write_str("one or more NATS servers"),
            Self::Queue => f.write_str("a name of 1 to 64 of the letters a-z, 0-9, _ and -"),
            Self::Paths => f.write_str("a list of absolute paths"),
            Self::Hosts => f.write_str("a list of hosts"),
            Self::Command => f.write_str("a list of texts, the program first"),
            Self::Pairs => f.write_str("a table of texts"),
            Self::Sentence => write!(f, "a line of 1 to {SENTENCE_CHARACTERS_MAX} characters"),
            Self::JsonObject => f.write_str("a JSON object in a text"),
            Self::Cron => f.write_str("a cron expression"),
            Self::Zone => f.write_str("the name of a time zone"),
        }
    }
}

/// What a setting is.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A word in place of a value.
    Word(&'static str),
    /// A whole number.
    Count(u64),
    /// A number.
    Fraction(f64),
    /// So many bytes.
    Bytes(u64),
    /// So long.
    Span(Duration),
    /// True or false.
    Switch(bool),
    /// A name or a path.
    Text(String),
    /// Paths, hosts, or a command.
    List(Vec<String>),
    /// Names with texts.
    Pairs(Vec<(String, String)>),
}

/// As it would be written in `millpond.toml`.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Word(word) => f.write_str(&quoted(word)),
            Self::Count(count) => count.fmt(f),
            // A whole number stays a number with a point, as TOML wants it.
            Self::Fraction(fraction) => write!(f, "{fraction:?}"),
            Self::Bytes(bytes) => match print_bytes(*bytes) {
                plain if plain.parse::<u64>().is_ok() => f.write_str(&plain),
                with_unit => f.write_str(&quoted(&with_unit)),
            },
            Self::Span(duration) => f.write_str(&quoted(&print_duration(*duration))),
            Self::Switch(is_on) => is_on.fmt(f),
            Self::Text(text) => f.write_str(&quoted(text)),
            Self::List(items) => {
                let items: Vec<_> = items.iter().map(|item| quoted(item)).collect();
                write!(f, "[{}]", items.join(", "))
            }
            Self::Pairs(pairs) if pairs.is_empty() => f.write_str("{}"),
            Self::Pairs(pairs) => {
                let pairs: Vec<_> =
                    pairs.iter().map(|(name, text)| format!("{} = {}", quoted(name), quoted(text))).collect();
                write!(f, "{{ {} }}", pairs.join(", "))
            }
        }
    }
}

/// Numbers as numbers, sizes and durations as they are written.
impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Word(word) => serializer.serialize_str(word),
            Self::Count(count) => serializer.serialize_u64(*count),
            Self::Fraction(fraction) => serializer.serialize_f64(*fraction),
            Self::Bytes(bytes) => serializer.serialize_str(&print_bytes(*bytes)),
            Self::Span(duration) => serializer.serialize_str(&print_duration(*duration)),
            Self::Switch(is_on) => serializer.serialize_bool(*is_on),
            Self::Text(text) => serializer.serialize_str(text),
            Self::List(items) => items.serialize(serializer),
            Self::Pairs(pairs) => serializer.collect_map(pairs.iter().map(|(name, text)| (name, text))),
        }
    }
}

/// A text in quotes, as TOML reads it.
fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            control if control.is_control() => quoted += &format!("\\u{:04X}", u32::from(control)),
            plain => quoted.push(plain),
        }
    }
    quoted + "\""
}

/// What somebody wrote.
#[derive(Clone, Debug)]
pub(super) enum Raw<'a> {
    /// From where nothing tells numbers from texts.
    Untyped(&'a str),
    /// A TOML text.
    Text(&'a str),
    /// A TOML number, in decimal.
    Number(String),
    /// A TOML truth.
    Switch(bool),
    /// A TOML list, each item with the byte where it stands.
    List(Vec<(Raw<'a>, usize)>),
    /// A TOML table, each value with the byte where it stands.
    Table(Vec<(&'a str, Raw<'a>, usize)>),
    /// A TOML date or time.
    Time,
}

impl fmt::Display for Raw<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Untyped("") => f.write_str("nothing"),
            Self::Untyped(text) => f.write_str(&shown(text)),
            Self::Text(text) => write!(f, "the text {}", shown(text)),
            Self::Number(number) => write!(f, "the number {}", shown(number).trim_matches('"')),
            Self::Switch(is_on) => is_on.fmt(f),
            Self::List(_) => f.write_str("a list"),
            Self::Table(_) => f.write_str("a table"),
            Self::Time => f.write_str("a date or time"),
        }
    }
}

/// Why something cannot be a setting's value.
#[derive(Debug)]
pub(super) struct Wrong {
    pub(super) message: String,
    /// Where, if it is only a part of the value.
    pub(super) byte: Option<usize>,
}

impl Setting {
    /// What it is if nobody says anything. For a command, which must be said, an empty list.
    pub fn default_value(&self) -> Value {
        match self.kind {
            Kind::Paths | Kind::Hosts | Kind::Command => Value::List(Vec::new()),
            Kind::Pairs => Value::Pairs(Vec::new()),
            // It must be said, and the file is refused if it is not.
            Kind::Cron => Value::Text(String::new()),
            _ => self.read(&Raw::Untyped(self.default)).expect("the table's defaults can be read"),
        }
    }

    /// What it may be, in words.
    pub fn expected(&self) -> String {
        match self.word {
            Some((word, _)) => format!("{} or \"{word}\"", self.kind),
            None => self.kind.to_string(),
        }
    }

    /// The value somebody wrote, or why it is none.
    pub(super) fn read(&self, raw: &Raw) -> Result<Value, Wrong> {
        if let (Some((word, _)), Raw::Untyped(text) | Raw::Text(text)) = (self.word, raw)
            && *text == word
        {
            return Ok(Value::Word(word));
        }
        self.kind.read(raw).map_err(|(part, byte)| {
            let advice = match (self.kind, &part, byte) {
                (Kind::Paths | Kind::Hosts, Raw::Text(text), None) => {
                    Some(format!("write [{}]", quoted(text)))
                }
                _ => self.kind.advice(&part),
            };
            let advice = advice.map_or(String::new(), |advice| format!("; {advice}"));
            let got = if byte.is_some() { format!("{part} in it") } else { part.to_string() };
            Wrong { message: format!("expected {}, got {got}{advice}", self.expected()), byte }
        })
    }
}

/// The part that is wrong, and where it stands if it is not the whole.
type Misfit<'a> = (Raw<'a>, Option<usize>);

impl Kind {
    /// The value, or the part that is wrong.
    pub(super) fn read<'a>(&self, raw: &Raw<'a>) -> Result<Value, Misfit<'a>> {
        use Raw::{List, Number, Table, Text, Untyped};
        let value = match (self, raw) {
            (Self::Count(least, most), Untyped(_) | Number(_)) => {
                let count = raw.number().and_then(|text| text.parse().ok());
                count.filter(|count| (*least..=*most).contains(count)).map(Value::Count)
            }
            (Self::Fraction(least, most), Untyped(_) | Number(_)) => {
                let fraction = raw.number().and_then(|text| text.parse().ok());
                fraction.filter(|fraction| (*least..=*most).contains(fraction)).map(Value::Fraction)
            }
            (Self::Bytes(least, most), Untyped(_) | Text(_) | Number(_)) => {
                let bytes = raw.text().or(raw.number()).and_then(read_bytes);
                bytes.filter(|bytes| (*least..=*most).contains(bytes)).map(Value::Bytes)
            }
            (Self::Span(least, most), Untyped(_) | Text(_) | Number(_)) => {
                let duration = raw.text().or(raw.number()).and_then(read_duration);
                duration.filter(|duration| (*least..=*most).contains(duration)).map(Value::Span)
            }
            (Self::Switch, Raw::Switch(is_on)) => Some(Value::Switch(*is_on)),
            (Self::Switch, Untyped("true" | "on")) => Some(Value::Switch(true)),
            (Self::Switch, Untyped("false" | "off")) => Some(Value::Switch(false)),
            (Self::OneOf(names), Untyped(text) | Text(text)) => {
                names().contains(text).then(|| Value::Text((*text).to_owned()))
            }
            (Self::Name, Untyped(text) | Text(text)) => {
                is_name(text).then(|| Value::Text((*text).to_owned()))
            }
            (Self::Symbol, Untyped(text) | Text(text)) => {
                is_symbol(text).then(|| Value::Text((*text).to_owned()))
            }
            (Self::Path, Untyped(text) | Text(text)) => {
                is_path(text).then(|| Value::Text((*text).to_owned()))
            }
            (Self::Address, Untyped(text) | Text(text)) => {
                text.parse::<SocketAddr>().is_ok().then(|| Value::Text((*text).to_owned()))
            }
            (Self::Url, Untyped(text) | Text(text)) => is_url(text).then(|| Value::Text((*text).to_owned())),
            (Self::NatsUrl, Untyped(text) | Text(text)) => {
                is_nats_url(text).then(|| Value::Text((*text).to_owned()))
            }
            (Self::Queue, Untyped(text) | Text(text)) => {
                is_queue(text).then(|| Value::Text((*text).to_owned()))
            }
            (Self::Paths | Self::Hosts, Untyped(text)) => {
                let parts = text.split(',').map(|part| (Untyped(part.trim()), 0)).collect::<Vec<_>>();
                return self.read_items(&parts).map(Value::List).map_err(|(part, _)| (part, None));
            }
            (Self::Paths | Self::Hosts, List(items)) => return self.read_items(items).map(Value::List),
            (Self::Command, List(items)) if !items.is_empty() => {
                return self.read_items(items).map(Value::List);
            }
            (Self::Sentence, Untyped(text) | Text(text)) => {
                is_sentence(text).then(|| Value::Text((*text).to_owned()))
            }
            (Self::JsonObject, Untyped(text) | Text(text)) => {
                is_json_object(text).then(|| Value::Text((*text).to_owned()))
            }
            (Self::Cron, Untyped(text) | Text(text)) => {
                read_cron(text).is_some().then(|| Value::Text((*text).to_owned()))
            }
            (Self::Zone, Untyped(text) | Text(text)) => {
                read_zone(text).is_some().then(|| Value::Text((*text).to_owned()))
            }
            (Self::Pairs, Table(pairs)) => return read_pairs(pairs).map(Value::Pairs),
            _ => None,
        };
        value.ok_or_else(|| (raw.clone(), None))
    }

    fn read_items<'a>(&self, items: &[(Raw<'a>, usize)]) -> Result<Vec<String>, Misfit<'a>> {
        let mut texts = Vec::with_capacity(items.len());
        for (index, (item, byte)) in items.iter().enumerate() {
            let is_right = |text: &&str| match self {
                Self::Paths => is_path(text),
                Self::Hosts => is_host(text),
                _ => !text.contains('\0') && (index > 0 || !text.is_empty()),
            };
            let text = item.text().filter(is_right).ok_or_else(|| (item.clone(), Some(*byte)))?;
            texts.push(text.to_owned());
        }
        Ok(texts)
    }

    /// What to do about a wrong value, where the expectation does not already say it.
    fn advice(&self, got: &Raw) -> Option<String> {
        let comment = "a comment needs a line of its own".to_owned();
        match (self, got) {
            (_, Raw::Untyped(text)) if text.contains('#') => Some(comment),
            (Self::Count(..) | Self::Fraction(..), Raw::Text(text)) if text.parse::<f64>().is_ok() => {
                Some("leave out the quotes".to_owned())
            }
            (Self::Switch, Raw::Text("true" | "false")) => Some("leave out the quotes".to_owned()),
            (Self::Bytes(..), Raw::Untyped(text) | Raw::Text(text)) if read_bytes(text).is_none() => {
                Some(SIZE_FORMS.to_owned())
            }
            (Self::Span(..), Raw::Untyped(text) | Raw::Text(text)) if read_duration(text).is_none() => {
                Some(DURATION_FORMS.to_owned())
            }
            (Self::Span(..), Raw::Number(_)) => Some(DURATION_FORMS.to_owned()),
            (Self::OneOf(names), Raw::Untyped(text) | Raw::Text(text)) => {
                Some(did_you_mean(text, names(), "choose one of them"))
            }
            (Self::Path | Self::Paths, Raw::Untyped(text) | Raw::Text(text)) if !text.starts_with('/') => {
                Some("begin it with /".to_owned())
            }
            (Self::Address, Raw::Untyped(_) | Raw::Text(_)) => {
                Some("write it like 127.0.0.1:8080, 0.0.0.0:8080 or [::1]:8080".to_owned())
            }
            (Self::Url, Raw::Untyped(_) | Raw::Text(_)) => {
                Some("write it like http://127.0.0.1:4318 or https://example.org/v1/traces".to_owned())
            }
            (Self::NatsUrl, Raw::Untyped(_) | Raw::Text(_)) => Some(
                "write it like nats://127.0.0.1:4222, tls://user:password@example.org or a:4222,b:4222"
                    .to_owned(),
            ),
            (Self::Hosts, Raw::Untyped(_) | Raw::Text(_)) => {
                Some("write each like example.org, *.example.org, example.org:8080 or [::1]:80".to_owned())
            }
            (Self::Cron, _) => Some("write it like \"*/5 * * * *\" or \"0 3 * * MON-FRI\"".to_owned()),
            (Self::Zone, _) => Some("write it like Europe/Berlin; this machine must know it".to_owned()),
            (Self::JsonObject, _) => Some("write it like '{\"text\": \"hi\"}'".to_owned()),
            (Self::Command, Raw::Text(_)) => Some("write it like [\"python3\", \"handler.py\"]".to_owned()),
            _ => None,
        }
    }
}

impl<'a> Raw<'a> {
    fn text(&self) -> Option<&'a str> {
        match self {
            Self::Untyped(text) | Self::Text(text) => Some(text),
            _ => None,
        }
    }

    fn number(&self) -> Option<&str> {
        match self {
            Self::Untyped(text) => Some(text),
            Self::Number(number) => Some(number),
            _ => None,
        }
    }
}

fn read_pairs<'a>(pairs: &[(&'a str, Raw<'a>, usize)]) -> Result<Vec<(String, String)>, Misfit<'a>> {
    let mut texts = Vec::with_capacity(pairs.len());
    for (name, raw, byte) in pairs {
        // The system cannot pass such a name on.
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err((Raw::Text(name), Some(*byte)));
        }
        let text = raw.text().filter(|text| !text.contains('\0'));
        let text = text.ok_or_else(|| (raw.clone(), Some(*byte)))?;
        texts.push(((*name).to_owned(), text.to_owned()));
    }
    Ok(texts)
}

fn is_name(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_.-".contains(&byte);
    (1..=64).contains(&text.len()) && text.bytes().all(is_letter)
}

/// As C names its functions.
fn is_symbol(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    (1..=255).contains(&text.len())
        && text.bytes().all(is_letter)
        && !text.starts_with(|letter: char| letter.is_ascii_digit())
}

fn is_sentence(text: &str) -> bool {
    (1..=SENTENCE_CHARACTERS_MAX).contains(&text.chars().count()) && !text.contains(char::is_control)
}

/// On one line, as arguments are.
fn is_json_object(text: &str) -> bool {
    text.starts_with('{') && !text.contains(['\n', '\r']) && serde_json::from_str::<&RawValue>(text).is_ok()
}

fn is_path(text: &str) -> bool {
    text.starts_with('/') && !text.contains('\0')
}

/// `http://` or `https://`, one host, and perhaps a path. Names and passwords do not belong into a setting that
/// anybody may see.
fn is_url(text: &str) -> bool {
    let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    rest.is_some_and(|rest| {
        let (host, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        is_host(host)
            && !host.starts_with('*')
            && path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#')
    })
}

/// A name or an address, with or without a port; an address with colons stands in brackets. `*.` before a
/// name stands for all that end so.
pub(super) fn is_host(text: &str) -> bool {
    let is_port = |port: &str| port.parse::<u16>().is_ok_and(|port| port > 0);
    if let Some(rest) = text.strip_prefix('[') {
        let Some((address, after)) = rest.split_once(']') else { return false };
        let is_end = after.is_empty() || after.strip_prefix(':').is_some_and(is_port);
        return address.parse::<Ipv6Addr>().is_ok() && is_end;
    }
    let name = text.strip_prefix("*.").unwrap_or(text);
    let (name, port) = name.split_once(':').map_or((name, None), |(name, port)| (name, Some(port)));
    let is_label = |label: &str| {
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        (1..=63).contains(&label.len()) && label.bytes().all(is_letter)
    };
    name.len() <= 253 && name.split('.').all(is_label) && port.is_none_or(is_port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_names_and_addresses_with_or_without_a_port() {
        let names = "example.org a-b.example.org:8080 localhost *.example.org *.internal:80";
        let addresses = "10.0.0.1 10.0.0.1:80 [::1] [fe80::1]:80";
        for host in names.split(' ').chain(addresses.split(' ')) {
            assert!(is_host(host), "{host}");
        }
        let others = "http://example.org a..b a:0 a:65536 a: ::1 [::1 [x]:1 * *. *.*.org a.*.org *:80";
        for other in others.split(' ').chain(["", "a b"]) {
            assert!(!is_host(other), "{other}");
        }
    }

    #[test]
    fn a_url_has_a_scheme_and_a_host_and_no_password() {
        let plain = "http://localhost http://127.0.0.1:4318 https://example.org/v1/traces";
        for url in plain.split(' ').chain(["http://[::1]:4318/a?b=c"]) {
            assert!(is_url(url), "{url}");
        }
        let others = "localhost:4318 ftp://a http:// http:///a http://*.a http://me:pw@host/ http://a/b#c";
        for other in others.split(' ').chain(["", "http://a b", "http://a/b c"]) {
            assert!(!is_url(other), "{other}");
        }
    }

    #[test]
    fn an_example_is_an_object_on_one_line_and_a_sentence_is_not_long() {
        for object in ["{}", r#"{"a": [1, {"b": null}]}"#] {
            assert!(is_json_object(object), "{object}");
        }
        for other in ["", "[]", "{", r#"{"a": 1} 2"#, "{\"a\":\n1}", "{'a': 1}", " {}"] {
            assert!(!is_json_object(other), "{other}");
        }
        assert!(is_sentence("Says it.") && is_sentence(&"ä".repeat(SENTENCE_CHARACTERS_MAX)));
        assert!(
            !is_sentence("")
                && !is_sentence("a\nb")
                && !is_sentence(&"a".repeat(SENTENCE_CHARACTERS_MAX + 1))
        );
    }

    #[test]
    fn a_symbol_is_what_c_can_name() {
        for symbol in ["a", "_", "handler_Resize2", &"x".repeat(255)] {
            assert!(is_symbol(symbol), "{symbol}");
        }
        for other in ["", "2a", "a-b", "a.b", "a b", "a\0", "ä", &"x".repeat(256)] {
            assert!(!is_symbol(other), "{other}");
        }
    }

    #[test]
    fn values_are_printed_as_toml_writes_them() {
        let printed = [
            (Value::Word("auto"), r#""auto""#),
            (Value::Fraction(2.0), "2.0"),
            (Value::Bytes(65_536), r#""64 KiB""#),
            (Value::Bytes(1000), "1000"),
            (Value::Span(Duration::from_secs(90)), r#""1m30s""#),
            (Value::Text("a\"b\\\n".to_owned()), r#""a\"b\\\u000A""#),
            (Value::List(vec!["a".to_owned(), "b".to_owned()]), r#"["a", "b"]"#),
            (Value::Pairs(vec![("A".to_owned(), "b".to_owned())]), r#"{ "A" = "b" }"#),
        ];
        for (value, text) in printed {
            assert_eq!(value.to_string(), text);
        }
    }
}
