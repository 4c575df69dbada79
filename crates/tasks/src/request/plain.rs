//! Reads what nearly everybody sends in one walk over its bytes: small, without escapes, with plain numbers.
//!
//! It only ever says yes. Whatever it is not sure of (a backslash, an exponent, a name that comes twice, any
//! mistake at all) it leaves to the careful way of `scan.rs` and `fields.rs`, which has the words for it. So it
//! may be strict where the other is lenient, and never the other way round; the tests hold both against each
//! other.
//!
//! Not here: what the values say.

use super::limits::Limits;
use super::tokens::is_space;
use std::ops::Range;

/// The longest text that is read so. In long texts a search for single bytes is faster than a walk.
const PLAIN_BYTES_MAX: usize = 1024;
/// How deep objects and arrays may be nested; less than any parser below takes.
const PLAIN_DEPTH_MAX: u64 = 16;
/// How many keys may be open at once, in all objects that are not closed yet.
const PLAIN_KEYS_MAX: usize = 24;
/// A number with no more digits fits into 64 bits, whatever its sign and wherever its point.
const PLAIN_DIGITS_MAX: usize = 17;

/// Reads an object that lies within `around` others, and hands over each of its keys and values until that says
/// no. False if the text is not plain, or not within the limits.
pub(super) fn object<'a>(
    text: &'a str,
    around: u64,
    limits: &Limits,
    mut entry: impl FnMut(&'a str, &'a str) -> bool,
) -> bool {
    // Looking ahead for an escape costs less than to walk up to it.
    if text.len() > PLAIN_BYTES_MAX || memchr::memchr(b'\\', text.as_bytes()).is_some() {
        return false;
    }
    let mut walk = Walk {
        bytes: text.as_bytes(),
        at: 0,
        depth_left: limits.depth_max.min(PLAIN_DEPTH_MAX).saturating_sub(around),
        string_bytes_max: limits.string_bytes_max,
        keys: [(0, 0); PLAIN_KEYS_MAX],
        keys_len: 0,
    };
    walk.skip_space();
    let read = walk.object(|key, value| entry(&text[key], &text[value]));
    walk.skip_space();
    read.is_some() && walk.at == walk.bytes.len()
}

struct Walk<'a> {
    bytes: &'a [u8],
    at: usize,
    depth_left: u64,
    string_bytes_max: u64,
    /// Where the keys of all open objects begin and end, the innermost object's last.
    keys: [(u16, u16); PLAIN_KEYS_MAX],
    keys_len: usize,
}

/// Each step is none where the text is not plain.
impl Walk<'_> {
    fn skip_space(&mut self) {
        while self.bytes.get(self.at).is_some_and(|byte| is_space(*byte)) {
            self.at += 1;
        }
    }

    /// Passes this byte, with space around it.
    fn pass(&mut self, wanted: u8) -> Option<()> {
        self.skip_space();
        if *self.bytes.get(self.at)? != wanted {
            return None;
        }
        self.at += 1;
        self.skip_space();
        Some(())
    }

    fn object(&mut self, mut entry: impl FnMut(Range<usize>, Range<usize>) -> bool) -> Option<()> {
        self.depth_left = self.depth_left.checked_sub(1)?;
        self.pass(b'{')?;
        let keys_before = self.keys_len;
        let mut is_first = true;
        while *self.bytes.get(self.at)? != b'}' {
            if !is_first {
                self.pass(b',')?;
            }
            is_first = false;
            let key = self.string()?;
            self.note_key(keys_before, &key)?;
            self.pass(b':')?;
            let start = self.at;
            self.value()?;
            if !entry(key, start..self.at) {
                return None;
            }
            self.skip_space();
        }
        self.at += 1;
        self.keys_len = keys_before;
        self.depth_left += 1;
        Some(())
    }

    fn array(&mut self) -> Option<()> {
        self.depth_left = self.depth_left.checked_sub(1)?;
        self.pass(b'[')?;
        let mut is_first = true;
        while *self.bytes.get(self.at)? != b']' {
            if !is_first {
                self.pass(b',')?;
            }
            is_first = false;
            self.value()?;
            self.skip_space();
        }
        self.at += 1;
        self.depth_left += 1;
        Some(())
    }

    fn value(&mut self) -> Option<()> {
        match *self.bytes.get(self.at)? {
            b'"' => self.string().map(drop),
            b'-' | b'0'..=b'9' => self.number(),
            b'{' => self.object(|_, _| true),
            b'[' => self.array(),
            b't' => self.word(b"true"),
            b'f' => self.word(b"false"),
            b'n' => self.word(b"null"),
            _ => None,
        }
    }

    /// What stands between the quotes.
    fn string(&mut self) -> Option<Range<usize>> {
        if *self.bytes.get(self.at)? != b'"' {
            return None;
        }
        let start = self.at + 1;
        let rest = &self.bytes[start..];
        let length = rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..0x20))?;
        if rest[length] != b'"' || length as u64 > self.string_bytes_max {
            return None;
        }
        self.at = start + length + 1;
        Some(start..start + length)
    }

    fn number(&mut self) -> Option<()> {
        self.at += usize::from(self.bytes[self.at] == b'-');
        let whole = self.digits();
        let starts_with_zero = self.bytes.get(self.at - whole) == Some(&b'0');
        let mut part = 0;
        if self.bytes.get(self.at) == Some(&b'.') {
            self.at += 1;
            part = self.digits();
            if part == 0 {
                return None;
            }
        }
        let is_plain = whole > 0 && (whole == 1 || !starts_with_zero) && whole + part <= PLAIN_DIGITS_MAX;
        // Whatever follows, an exponent too, is no comma and no bracket, and is refused by whoever wants one.
        is_plain.then_some(())
    }

    /// Passes digits, and says how many.
    fn digits(&mut self) -> usize {
        let length = self.bytes[self.at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += length;
        length
    }

    fn word(&mut self, wanted: &[u8]) -> Option<()> {
        let is_there = self.bytes[self.at..].starts_with(wanted);
        self.at += wanted.len();
        is_there.then_some(())
    }

    /// Adds a key to those of its object, unless that has it already.
    fn note_key(&mut self, from: usize, key: &Range<usize>) -> Option<()> {
        let name = &self.bytes[key.clone()];
        let is_same = |(start, end): &(u16, u16)| &self.bytes[usize::from(*start)..usize::from(*end)] == name;
        if self.keys[from..self.keys_len].iter().any(is_same) {
            return None;
        }
        let place = (u16::try_from(key.start).ok()?, u16::try_from(key.end).ok()?);
        *self.keys.get_mut(self.keys_len)? = place;
        self.keys_len += 1;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::fields::{Field, Fields, look_through};
    use super::super::{checked_text, scan};
    use super::*;
    use std::env;

    fn is_plain(text: &str) -> bool {
        object(text, 0, &Limits::default(), |_, _| true)
    }

    #[test]
    fn what_nearly_everybody_sends_is_plain() {
        for text in [
            r#"{"handler":"echo","args":{"n":12345,"text":"hello world !"}}"#,
            r#" { "task_id" : 17 , "handler" : "a" , "args" : { "l" : [ 1 , -2.5 , { "a" : null } , [ ] ] } } "#,
            "{\"a\":true,\"b\":false,\"c\":{},\"d\":\"\u{7f}é\",\"e\":0,\"f\":-0.0}",
            "{}",
        ] {
            assert!(is_plain(text), "{text}");
        }
    }

    #[test]
    fn whatever_is_doubtful_is_left_to_others() {
        let deep = format!("{}{}", r#"{"a":"#.repeat(17), "1".to_owned() + &"}".repeat(17));
        let many: String = (0..25).map(|key| format!("\"k{key}\":1,")).collect();
        let many = format!("{{{}}}", many.trim_end_matches(','));
        let long = format!("{{\"a\":\"{}\"}}", "x".repeat(1024));
        for text in [
            r#"{"a":"\n"}"#,
            "{\"a\":\"\u{1}\"}",
            r#"{"a":1e5}"#,
            r#"{"a":123456789012345678}"#,
            r#"{"a":1,"a":2}"#,
            r#"{"a":[{"b":1,"b":2}]}"#,
            r#"{"a":1,}"#,
            r#"{"a":[1,]}"#,
            r#"{"a":01}"#,
            r#"{"a":1.}"#,
            r#"{"a":-}"#,
            r#"{"a":tru}"#,
            r#"{"a" 1}"#,
            r#"{"a":}"#,
            r#"{"a":1"#,
            r#"{"a"#,
            r#"{"a":1} x"#,
            "[]",
            "",
            "\u{feff}{}",
            &deep,
            &many,
            &long,
        ] {
            assert!(!is_plain(text), "{text}");
        }
        let limits = Limits { depth_max: 2, string_bytes_max: 3, ..Limits::default() };
        let plain = |text| object(text, 0, &limits, |_, _| true);
        assert!(plain(r#"{"abc":["abc"]}"#) && !plain(r#"{"a":[[]]}"#) && !plain(r#"{"a":"abcd"}"#));
        assert!(!object(r#"{"a":[]}"#, 1, &limits, |_, _| true), "another lies around it");
    }

    /// The same numbers for the same seed.
    struct Dice(u64);

    impl Dice {
        fn roll(&mut self, sides: usize) -> usize {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            (self.0 % sides as u64) as usize
        }
    }

    /// The way that is taken where the text is not plain, without a word about what is wrong.
    fn read_carefully<'a>(text: &'a str, limits: &Limits) -> Option<Fields<'a>> {
        scan::check(text.as_bytes(), 0, limits).ok()?;
        let fields = Fields::read(checked_text(text.as_bytes(), "").ok()?).ok()?;
        let args = fields.get(Field::Args);
        args.is_none_or(|args| look_through(text, &args).is_ok()).then_some(fields)
    }

    #[test]
    fn nothing_is_plain_that_the_careful_way_would_refuse_or_read_otherwise() {
        const PIECES: [&str; 32] = [
            "{",
            "}",
            "[",
            "]",
            ",",
            ":",
            " ",
            "\n",
            "\"args\"",
            "\"handler\"",
            "\"task_id\"",
            "\"a\"",
            "\"\"",
            "\"",
            "\\",
            "0",
            "12",
            "-",
            ".",
            "e",
            "1.5",
            "-0",
            "true",
            "null",
            "false",
            "nul",
            "é",
            "\u{1}",
            "\"args\":{",
            "\"a\":",
            "},",
            "123456789",
        ];
        let seed = env::var("MILLPOND_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0x5EED_0001);
        println!("MILLPOND_SEED={seed}");
        let limits = Limits { depth_max: 5, string_bytes_max: 8, ..Limits::default() };
        let base = r#"{"handler":"a","args":{"a":[1,{"a":null}],"b":"x"},"task_id":7}"#;
        let mut dice = Dice(seed);
        let mut plain = 0;
        for round in 0..50_000 {
            let mut text = if round % 2 == 0 { base.to_owned() } else { "{".to_owned() };
            for _ in 0..=dice.roll(3) {
                let at = dice.roll(text.len() + 1);
                let piece = PIECES[dice.roll(PIECES.len())];
                let end = (at + dice.roll(3)).min(text.len());
                if text.is_char_boundary(at) && text.is_char_boundary(end) {
                    text.replace_range(at..end, piece);
                }
            }
            let Some(fields) = Fields::read_plain(text.as_bytes(), &limits) else { continue };
            plain += 1;
            let careful =
                read_carefully(&text, &limits).unwrap_or_else(|| panic!("refused otherwise: {text}"));
            assert_eq!(fields.values(), careful.values(), "{text}");
        }
        assert!(plain > 500, "{plain} of 50000 were plain");
    }
}
