//! Cuts bytes into the tokens of JSON without judging them.
//!
//! The limits must hold before a parser sees the text, and an id must be found in text that no parser
//! accepts. Both need a reader that allocates nothing and goes on after a mistake; no JSON crate offers one,
//! and it is this short.
//!
//! Not here: whether the tokens make sense. That is for `serde_json`.

use std::ops::Range;

/// One token. Brackets are named by what they open or close.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
    OpenObject,
    OpenArray,
    Close,
    Colon,
    Comma,
    /// A string with its quotes. The second one is missing if the text ends before it.
    String,
    /// A run of anything else: a number, a word, or nonsense.
    Word,
}

/// The tokens of a text with their places. White space lies between them.
pub(super) struct Tokens<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Tokens<'a> {
    pub(super) fn of(text: &'a [u8]) -> Self {
        Self { text, at: 0 }
    }

    /// The first byte behind the string that begins at `start`.
    fn string_end(&self, start: usize) -> usize {
        let mut at = start + 1;
        while let Some(length) = self.text.get(at..).and_then(|rest| memchr::memchr2(b'"', b'\\', rest)) {
            at += length;
            if self.text[at] == b'"' {
                return at + 1;
            }
            at += 2;
        }
        self.text.len()
    }

    fn word_end(&self, start: usize) -> usize {
        let ends =
            |byte: &u8| matches!(byte, b'{' | b'}' | b'[' | b']' | b':' | b',' | b'"') || is_space(*byte);
        self.text[start..].iter().position(ends).map_or(self.text.len(), |length| start + length)
    }
}

impl Iterator for Tokens<'_> {
    type Item = (Token, Range<usize>);

    fn next(&mut self) -> Option<Self::Item> {
        while is_space(*self.text.get(self.at)?) {
            self.at += 1;
        }
        let start = self.at;
        let (token, end) = match self.text[start] {
            b'{' => (Token::OpenObject, start + 1),
            b'[' => (Token::OpenArray, start + 1),
            b'}' | b']' => (Token::Close, start + 1),
            b':' => (Token::Colon, start + 1),
            b',' => (Token::Comma, start + 1),
            b'"' => (Token::String, self.string_end(start)),
            _ => (Token::Word, self.word_end(start)),
        };
        self.at = end;
        Some((token, start..end))
    }
}

/// White space as JSON has it.
pub(super) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(text: &str) -> Vec<&str> {
        Tokens::of(text.as_bytes()).map(|(_, range)| &text[range]).collect()
    }

    #[test]
    fn tokens_are_cut_where_json_cuts_them() {
        assert_eq!(
            cut(r#" {"a" :[1, -2e3],"b\"}":null} "#),
            ["{", r#""a""#, ":", "[", "1", ",", "-2e3", "]", ",", r#""b\"}""#, ":", "null", "}"]
        );
    }

    #[test]
    fn a_text_that_ends_early_is_cut_to_its_end() {
        assert_eq!(cut(r#"{"a"#), ["{", r#""a"#]);
        assert_eq!(cut(r#""a\"#), [r#""a\"#]);
        assert_eq!(cut("  "), [""; 0]);
    }
}
