//! From text to named fields: syntax, unknown names and names that come twice.
//!
//! `serde_json` judges the syntax. Values stay the text they are, so that each knows its place and `args` is
//! never built into a tree. Names inside `args` are looked at too: two readers that keep a different one of
//! two equal names would disagree about what was asked for.
//!
//! Not here: what a field may say (`values.rs`).

use super::limits::Limits;
use super::plain;
use super::problem::Problem;
use super::values::{self, Value};
use crate::nearest::nearest;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;
use std::str;

/// The fields a request may have, in the order in which it is printed.
pub(super) const NAMES: [&str; 14] = [
    "task_id",
    "opcode",
    "handler",
    "args",
    "priority",
    "affinity",
    "timeout_ms",
    "delay_ms",
    "run_at",
    "expires_ms",
    "retries",
    "idempotency_key",
    "unique_key",
    "traceparent",
];

/// A field by its place in [`NAMES`].
#[derive(Clone, Copy)]
pub(super) enum Field {
    TaskId,
    Opcode,
    Handler,
    Args,
    Priority,
    Affinity,
    TimeoutMs,
    DelayMs,
    RunAt,
    ExpiresMs,
    Retries,
    IdempotencyKey,
    UniqueKey,
    Traceparent,
}

/// What people write who mean one of the names, where the names are not alike.
const OTHER_WORDS: [(&str, &str); 6] = [
    ("id", "task_id"),
    ("arguments", "args"),
    ("params", "args"),
    ("key", "idempotency_key"),
    ("retry", "retries"),
    ("trace", "traceparent"),
];
/// So few keys are compared in pairs, which is faster than to sort them.
const KEYS_FEW_MAX: usize = 8;

/// The values of one request, each at the place of its name in [`NAMES`].
pub(super) struct Fields<'a> {
    text: &'a str,
    values: [Option<&'a str>; NAMES.len()],
    /// The first name that is unknown or comes again.
    stray: Option<Problem>,
    /// The arguments as the parser gave them, if one was asked.
    args: Option<&'a RawValue>,
    /// Whether nothing is left that [`look_through`] could find in a value.
    is_plain: bool,
}

impl<'a> Fields<'a> {
    /// The fields of a plain text within the limits; none if it is not so plain that one walk can tell.
    pub(super) fn read_plain(bytes: &'a [u8], limits: &Limits) -> Option<Self> {
        let text = str::from_utf8(bytes).ok()?;
        let mut values = [None; NAMES.len()];
        let is_plain = plain::object(text, 0, limits, |key, value| {
            let slot = NAMES.iter().position(|name| *name == key);
            slot.is_some_and(|slot| values[slot].replace(value).is_none())
        });
        is_plain.then_some(Fields { text, values, stray: None, args: None, is_plain })
    }

    pub(super) fn read(text: &'a str) -> Result<Self, Problem> {
        let mut fields =
            Fields { text, values: [None; NAMES.len()], stray: None, args: None, is_plain: false };
        let mut reader = serde_json::Deserializer::from_str(text);
        let read = Outermost(&mut fields).deserialize(&mut reader).and_then(|()| reader.end());
        read.map_err(|error| syntax(text, text, &error))?;
        match fields.stray.take() {
            Some(problem) => Err(problem),
            None => Ok(fields),
        }
    }

    #[cfg(test)]
    pub(super) fn values(&self) -> &[Option<&'a str>] {
        &self.values
    }

    pub(super) fn text(&self) -> &'a str {
        self.text
    }

    /// The value of a field. `null` is the same as leaving it out.
    pub(super) fn get(&self, field: Field) -> Option<Value<'a>> {
        let json = self.values[field as usize].filter(|value| *value != "null")?;
        Some(Value { json, offset: offset_in(self.text, json) })
    }

    /// The arguments, if a parser gave them.
    pub(super) fn parsed_args(&self) -> Option<&'a RawValue> {
        self.args
    }

    /// Looks through a value, unless that was done already.
    pub(super) fn look_through(&self, value: &Value<'a>) -> Result<(), Problem> {
        if self.is_plain { Ok(()) } else { look_through(self.text, value) }
    }

    fn note_stray(&mut self, key: Cow<'a, str>, value: &'a str, known: bool) {
        let offset = match key {
            Cow::Borrowed(key) => quote_before(self.text, key),
            Cow::Owned(_) => offset_in(self.text, value),
        };
        let name = values::shown(&key);
        let message = match (known, meant(&key)) {
            (true, _) => format!("the field {name} comes twice"),
            (false, Some(guess)) => format!("unknown field {name}; did you mean {guess:?}?"),
            (false, None) => format!("unknown field {name}; known are {}", NAMES.join(", ")),
        };
        self.stray.get_or_insert_with(|| Problem::invalid(offset, message));
    }
}

/// Looks through a value of `text` for names that come twice, and for what cannot be a number or a string.
pub(super) fn look_through<'a>(text: &'a str, value: &Value<'a>) -> Result<(), Problem> {
    let mut twice = None;
    let mut reader = serde_json::Deserializer::from_str(value.json);
    let read = Within { twice: &mut twice }.deserialize(&mut reader);
    match (twice, read) {
        (Some(key), _) => {
            let offset = if let Cow::Borrowed(key) = key { quote_before(text, key) } else { value.offset };
            Err(Problem::invalid(offset, format!("the key {} comes twice", values::shown(&key))))
        }
        (None, Err(error)) => Err(syntax(text, value.json, &error)),
        (None, Ok(())) => Ok(()),
    }
}

/// The known name that was probably meant by an unknown one.
fn meant(key: &str) -> Option<&'static str> {
    let other = OTHER_WORDS.iter().find(|(word, _)| key.eq_ignore_ascii_case(word));
    other.map(|(_, name)| *name).or_else(|| nearest(key, NAMES))
}

/// Where `part`, a slice of `text`, begins in it.
pub(super) fn offset_in(text: &str, part: &str) -> usize {
    (part.as_ptr() as usize).saturating_sub(text.as_ptr() as usize).min(text.len())
}

/// The quote in front of a key.
fn quote_before(text: &str, key: &str) -> usize {
    offset_in(text, key).saturating_sub(1)
}

/// What the parser says about `part` of `text`, with what it stumbled over.
pub(super) fn syntax(text: &str, part: &str, error: &serde_json::Error) -> Problem {
    let line = error.line().saturating_sub(1);
    let line_start: usize = part.split_inclusive('\n').take(line).map(str::len).sum();
    let offset = (line_start + error.column().saturating_sub(1)).min(part.len());
    let base = offset_in(text, part);
    let said = error.to_string();
    let said = said.rsplit_once(" at line ").map_or(said.as_str(), |(said, _)| said);
    if error.is_eof() {
        let message = said.replace("EOF while parsing", "the text ends inside");
        return Problem::invalid(base + part.len(), message);
    }
    // A word that is not finished is noticed at the byte behind it.
    let (offset, word) = word_at(part, offset.saturating_sub(usize::from(said == "expected ident")));
    let message = match said {
        "expected value" | "expected ident" => format!("expected a JSON value, got {word}"),
        "trailing characters" => format!("expected nothing after the request, got {word}"),
        "key must be a string" => format!("expected a key in double quotes, got {word}"),
        "trailing comma" => format!("expected something after the comma, got {word}"),
        "invalid number" => format!("expected a number as JSON writes it, got {word}"),
        "number out of range" => format!("expected a number that fits into 64 bits, got {word}"),
        "lone leading surrogate in hex escape" | "unexpected end of hex escape" => {
            "expected a whole character, got half of one (a lone surrogate)".to_owned()
        }
        said if said.starts_with("control character") => {
            "expected control characters in a string to be escaped, got one as it is".to_owned()
        }
        said if said.starts_with("expected") => format!("{said}, got {word}"),
        said => said.to_owned(),
    };
    Problem::invalid(base + offset, message)
}

/// The word around an offset and where it begins; or one character, if it is no word.
fn word_at(text: &str, offset: usize) -> (usize, String) {
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || b"_+-.".contains(byte);
    let bytes = text.as_bytes();
    let start = offset - bytes[..offset].iter().rev().take_while(|byte| is_word(byte)).count();
    let end = offset + bytes[offset..].iter().take_while(|byte| is_word(byte)).count();
    if bytes.get(offset).is_some_and(is_word) {
        return (start, values::cut(&text[start..end]));
    }
    let start = (0..=offset).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    let character = text[start..].chars().next();
    (start, character.map_or_else(|| "the end".to_owned(), |character| format!("{character:?}")))
}

/// Fills the fields from the request's own object.
struct Outermost<'t, 'a>(&'t mut Fields<'a>);

impl<'a> DeserializeSeed<'a> for Outermost<'_, 'a> {
    type Value = ();

    fn deserialize<D: Deserializer<'a>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_map(self)
    }
}

impl<'a> Visitor<'a> for Outermost<'_, 'a> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key_seed(Key)? {
            let value = map.next_value::<&'a RawValue>()?;
            match NAMES.iter().position(|name| *name == key) {
                Some(slot) if self.0.values[slot].is_none() => {
                    self.0.values[slot] = Some(value.get());
                    if slot == Field::Args as usize {
                        self.0.args = Some(value);
                    }
                }
                slot => self.0.note_stray(key, value.get(), slot.is_some()),
            }
        }
        Ok(())
    }
}

/// A key, borrowed from the text unless it has escapes.
struct Key;

impl<'a> DeserializeSeed<'a> for Key {
    type Value = Cow<'a, str>;

    fn deserialize<D: Deserializer<'a>>(self, reader: D) -> Result<Self::Value, D::Error> {
        reader.deserialize_str(self)
    }
}

impl<'a> Visitor<'a> for Key {
    type Value = Cow<'a, str>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a key")
    }

    fn visit_borrowed_str<E>(self, key: &'a str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(key))
    }

    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(key.to_owned()))
    }
}

/// Goes through any value and keeps nothing but the keys of the objects it is in.
struct Within<'t, 'a> {
    twice: &'t mut Option<Cow<'a, str>>,
}

impl<'a> DeserializeSeed<'a> for Within<'_, 'a> {
    type Value = ();

    fn deserialize<D: Deserializer<'a>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'a> Visitor<'a> for Within<'_, 'a> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        IgnoredAny.expecting(formatter)
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'a>>(self, mut list: A) -> Result<(), A::Error> {
        while list.next_element_seed(Within { twice: &mut *self.twice })?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<(), A::Error> {
        let mut keys = Vec::new();
        while let Some(key) = map.next_key_seed(Key)? {
            keys.push(key);
            map.next_value_seed(Within { twice: &mut *self.twice })?;
        }
        match any_twice(keys) {
            None => Ok(()),
            Some(key) => {
                *self.twice = Some(key);
                Err(A::Error::custom("a key comes twice"))
            }
        }
    }
}

/// The first key that stands in the list a second time, in the order of the keys. Sorting keeps a hostile
/// object at n log n; being stable, it leaves the later of two equal keys behind the earlier.
fn any_twice(mut keys: Vec<Cow<'_, str>>) -> Option<Cow<'_, str>> {
    let few = keys.len() <= KEYS_FEW_MAX;
    if few && (1..keys.len()).all(|at| !keys[..at].contains(&keys[at])) {
        return None;
    }
    keys.sort();
    let later = 1 + keys.windows(2).position(|pair| pair[0] == pair[1])?;
    Some(keys.swap_remove(later))
}
