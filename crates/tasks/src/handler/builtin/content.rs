//! Bytes as JSON has them: as text where they are text, else in base64, and always with a word that says
//! which.
//!
//! Whoever reads bytes need not know beforehand what they are: without a wish, text stays readable and the
//! rest is encoded. A stream is cut into pieces that are whole by themselves; a character that a cut would
//! split waits for its end.
//!
//! Not here: where the bytes come from and go to.

use super::arguments::{Arguments, wrong};
use crate::call::{Call, Stopped};
use crate::error::{ErrorCode, TaskFailure};
use crate::nearest::shown;
use base64::engine::general_purpose::STANDARD;
use base64::{DecodeError, Engine as _};
use serde_json::value::RawValue;

/// How bytes are written in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    /// As the text they are.
    Utf8,
    /// In base64, with padding.
    Base64,
}

impl Encoding {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Utf8 => "utf8",
            Self::Base64 => "base64",
        }
    }

    /// What the argument `encoding` asks for, if it is there.
    pub(super) fn asked(arguments: &Arguments<'_>) -> Result<Option<Self>, TaskFailure> {
        arguments.word("encoding", &[("utf8", Self::Utf8), ("base64", Self::Base64)])
    }

    /// The bytes that `text` stands for; `name` is the argument it came in.
    pub(super) fn decode(self, name: &str, text: String) -> Result<Vec<u8>, TaskFailure> {
        match self {
            Self::Utf8 => Ok(text.into_bytes()),
            Self::Base64 => STANDARD.decode(&text).map_err(|error| {
                let why = match error {
                    DecodeError::InvalidByte(offset, _) | DecodeError::InvalidLastSymbol { offset, .. } => {
                        format!("wrong at offset {offset}")
                    }
                    _ => "with a wrong length or padding".to_owned(),
                };
                let got = format!("the string {}, {why}", shown(&text));
                wrong(&format!("args.{name}"), "base64 with padding", got)
            }),
        }
    }
}

/// Bytes as they stand in an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Content {
    pub(super) text: String,
    pub(super) encoding: Encoding,
}

impl Content {
    /// The bytes as `wanted`; without a wish as text if they are that.
    pub(super) fn new(bytes: Vec<u8>, wanted: Option<Encoding>) -> Result<Self, TaskFailure> {
        if wanted == Some(Encoding::Base64) {
            return Ok(Self::base64(&bytes));
        }
        match String::from_utf8(bytes) {
            Ok(text) => Ok(Self { text, encoding: Encoding::Utf8 }),
            Err(error) if wanted.is_none() => Ok(Self::base64(error.as_bytes())),
            Err(error) => {
                let offset = error.utf8_error().valid_up_to();
                let byte = error.as_bytes()[offset];
                Err(not_text(&format!("the byte 0x{byte:02x} at offset {offset}")))
            }
        }
    }

    /// Puts the content into the stream of a task, as the JSON that `wrap` makes. What is too large for one
    /// partial result goes in two.
    pub(super) fn say(&self, call: &Call, wrap: &impl Fn(&Self) -> Box<RawValue>) -> Result<(), TaskFailure> {
        match call.partial(wrap(self)) {
            Err(Stopped::TooLarge(failure)) => {
                let [first, second] = self.halves().ok_or(failure)?;
                first.say(call, wrap)?;
                second.say(call, wrap)
            }
            answer => Ok(answer?),
        }
    }

    fn halves(&self) -> Option<[Self; 2]> {
        let is_cut = |at: &usize| match self.encoding {
            Encoding::Utf8 => self.text.is_char_boundary(*at),
            // Four letters are three bytes, and stand for themselves.
            Encoding::Base64 => at.is_multiple_of(4),
        };
        let middle = (1..=self.text.len() / 2).rev().find(is_cut)?;
        let (first, second) = self.text.split_at(middle);
        Some([first, second].map(|text| Self { text: text.to_owned(), encoding: self.encoding }))
    }

    fn base64(bytes: &[u8]) -> Self {
        Self { text: STANDARD.encode(bytes), encoding: Encoding::Base64 }
    }
}

fn not_text(got: &str) -> TaskFailure {
    let message = format!("expected UTF-8, got {got}; ask with \"encoding\": \"base64\"");
    TaskFailure::new(ErrorCode::HandlerError, message)
}

/// How much of a stream is read at a time. As JSON it grows a little, and seldom beyond the partial results
/// that the defaults allow.
pub(super) const PIECE_BYTES: usize = 32 << 10;

/// Cuts a stream of bytes into pieces that are whole by themselves.
pub(super) struct Pieces {
    wanted: Option<Encoding>,
    /// The beginning of a character whose end has not come yet: three bytes at most.
    begun: Vec<u8>,
}

impl Pieces {
    pub(super) fn new(wanted: Option<Encoding>) -> Self {
        Self { wanted, begun: Vec::new() }
    }

    /// The piece that `bytes` make with what was left over; none if they only begin a character.
    pub(super) fn next(&mut self, bytes: &[u8]) -> Result<Option<Content>, TaskFailure> {
        let mut piece = std::mem::take(&mut self.begun);
        piece.extend_from_slice(bytes);
        if self.wanted != Some(Encoding::Base64)
            && let Err(error) = std::str::from_utf8(&piece)
            && error.error_len().is_none()
        {
            self.begun = piece.split_off(error.valid_up_to());
        }
        if piece.is_empty() { Ok(None) } else { Content::new(piece, self.wanted).map(Some) }
    }

    /// What is left over at the end.
    pub(super) fn rest(self) -> Result<Option<Content>, TaskFailure> {
        match self.wanted {
            _ if self.begun.is_empty() => Ok(None),
            None => Ok(Some(Content::base64(&self.begun))),
            Some(_) => Err(not_text("half a character at the end")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_text_and_the_rest_becomes_base64() {
        let content = |bytes: &[u8], wanted| Content::new(bytes.to_vec(), wanted).map(|content| content.text);
        assert_eq!(content("hé".as_bytes(), None).unwrap(), "hé");
        assert_eq!(content(b"\xFFa", None).unwrap(), "/2E=");
        assert_eq!(content(b"a", Some(Encoding::Base64)).unwrap(), "YQ==");
        assert_eq!(
            content(b"ab\xFF", Some(Encoding::Utf8)).unwrap_err().message,
            "expected UTF-8, got the byte 0xff at offset 2; ask with \"encoding\": \"base64\""
        );
    }

    #[test]
    fn base64_is_read_strictly() {
        let decode = |text: &str| Encoding::Base64.decode("data", text.to_owned());
        assert_eq!(decode("aGk=").unwrap(), b"hi");
        assert_eq!(decode("").unwrap(), b"");
        for wrong in ["aGk", "a b=", "aGk=\n", "*"] {
            let message = decode(wrong).unwrap_err().message;
            assert!(
                message.starts_with("args.data: expected base64 with padding, got the string"),
                "{message}"
            );
        }
    }

    #[test]
    fn a_character_is_never_cut_in_two() {
        let text = "aé€😀z".repeat(3);
        for size in 1..6 {
            let mut pieces = Pieces::new(None);
            let mut together = String::new();
            for bytes in text.as_bytes().chunks(size) {
                if let Some(content) = pieces.next(bytes).unwrap() {
                    assert_eq!(content.encoding, Encoding::Utf8, "pieces of {size}");
                    together.push_str(&content.text);
                }
            }
            assert_eq!(pieces.rest().unwrap(), None);
            assert_eq!(together, text, "pieces of {size}");
        }
    }

    #[test]
    fn bytes_that_are_no_text_lose_nothing_in_a_stream() {
        let bytes: Vec<u8> = (0..=255).chain([0xE2, 0x82]).collect();
        for size in [1, 2, 3, 7, 300] {
            let mut pieces = Pieces::new(None);
            let mut together = Vec::new();
            let mut add = |content: Content| match content.encoding {
                Encoding::Utf8 => together.extend_from_slice(content.text.as_bytes()),
                Encoding::Base64 => together.extend(STANDARD.decode(content.text).unwrap()),
            };
            bytes.chunks(size).for_each(|chunk| pieces.next(chunk).unwrap().into_iter().for_each(&mut add));
            pieces.rest().unwrap().into_iter().for_each(&mut add);
            assert_eq!(together, bytes, "pieces of {size}");
        }
        let mut strict = Pieces::new(Some(Encoding::Utf8));
        assert_eq!(strict.next(&[b'a', 0xE2]).unwrap().unwrap().text, "a");
        assert!(strict.rest().is_err(), "half a character is no text");
    }

    #[test]
    fn a_half_is_whole_by_itself() {
        let halves = |bytes: &[u8], wanted| Content::new(bytes.to_vec(), wanted).unwrap().halves();
        let texts = |halves: Option<[Content; 2]>| halves.map(|halves| halves.map(|content| content.text));
        assert_eq!(texts(halves("a€b".as_bytes(), None)), Some(["a".to_owned(), "€b".to_owned()]));
        assert_eq!(texts(halves("€".as_bytes(), None)), None, "one character is not cut");
        let bytes: Vec<u8> = (100..=200).collect();
        let [first, second] = halves(&bytes, None).unwrap();
        let decode = |content: &Content| STANDARD.decode(&content.text).unwrap();
        assert_eq!([decode(&first), decode(&second)].concat(), bytes);
        assert!(halves(&[255], None).is_none(), "nor is a byte");
    }
}
