//! From a server's answer to the task's: status, headers, and the body in one piece or as a stream.
//!
//! A body is read no further than the limit, whatever its header says about its length. As a stream, the
//! first partial result tells status and headers, so that a reader knows what is coming; the body follows
//! as it arrives.
//!
//! Not here: who is asked and how (`http.rs`).

use crate::call::{Call, Stopped};
use crate::error::TaskFailure;
use crate::handler::builtin::content::{Content, PIECE_BYTES, Pieces};
use crate::handler::builtin::{answer, buffer_for, too_large};
use serde::Serialize;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::io::{self, Read};
use ureq::http::header::{HeaderMap, SET_COOKIE};

/// How much memory is set aside because of what a header says, before anything has come.
const RESERVED_BYTES_MAX: u64 = 1 << 20;

/// What is known of an answer before its body.
#[derive(Serialize)]
pub(super) struct Head {
    status: u16,
    headers: BTreeMap<String, String>,
    /// Where it came from, if that is not where it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
}

#[derive(Serialize)]
struct Whole<'a> {
    #[serde(flatten)]
    head: &'a Head,
    body: &'a str,
    encoding: &'static str,
}

#[derive(Serialize)]
struct Piece<'a> {
    body: &'a str,
    encoding: &'static str,
}

#[derive(Serialize)]
struct Streamed<'a> {
    #[serde(flatten)]
    head: &'a Head,
    /// How many bytes the body had.
    length: u64,
}

/// A body that is still to be read, with its limits.
pub(super) struct Incoming<R> {
    pub(super) body: R,
    /// What a header says about its length.
    pub(super) announced: Option<u64>,
    pub(super) bytes_max: u64,
}

/// Why a body did not come whole.
pub(super) enum Broken {
    /// The connection failed, was stopped, or took too long.
    Read(io::Error),
    /// Everything else.
    Other(TaskFailure),
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Self {
        Self::Read(error)
    }
}

impl From<TaskFailure> for Broken {
    fn from(failure: TaskFailure) -> Self {
        Self::Other(failure)
    }
}

impl Head {
    pub(super) fn new(status: u16, headers: &HeaderMap, url: Option<String>) -> Self {
        let mut texts = BTreeMap::<String, String>::new();
        for (name, value) in headers {
            // HTTP gives bytes beyond ASCII no meaning, so each stands for the character of its number.
            let value: String = value.as_bytes().iter().copied().map(char::from).collect();
            // Cookies contain commas, so they are told apart by line.
            let between = if name == SET_COOKIE { "\n" } else { ", " };
            match texts.get_mut(name.as_str()) {
                Some(earlier) => *earlier = format!("{earlier}{between}{value}"),
                None => drop(texts.insert(name.as_str().to_owned(), value)),
            }
        }
        Self { status, headers: texts, url }
    }
}

impl<R: Read> Incoming<R> {
    /// The answer with its body.
    pub(super) fn whole(self, head: &Head) -> Result<Box<RawValue>, Broken> {
        self.check(self.announced.unwrap_or(0))?;
        let expected = self.announced.unwrap_or(0).min(RESERVED_BYTES_MAX);
        let mut bytes = buffer_for(expected as usize)?;
        let bytes_max = self.bytes_max;
        self.body.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > bytes_max {
            return Err(more_than(bytes_max).into());
        }
        let Content { text, encoding } = Content::new(bytes, None)?;
        Ok(answer(&Whole { head, body: &text, encoding: encoding.name() }))
    }

    /// The answer without its body, which goes into the stream.
    pub(super) fn stream(mut self, head: &Head, call: &Call) -> Result<Box<RawValue>, Broken> {
        self.check(self.announced.unwrap_or(0))?;
        match call.partial(answer(head)) {
            // Headers that are too many for a partial result come with the last one.
            Ok(()) | Err(Stopped::TooLarge(_)) => {}
            Err(over) => return Err(TaskFailure::from(over).into()),
        }
        let mut pieces = Pieces::new(None);
        let mut bytes = vec![0; PIECE_BYTES];
        let mut length = 0;
        let piece =
            |content: &Content| answer(&Piece { body: &content.text, encoding: content.encoding.name() });
        loop {
            let count = match self.body.read(&mut bytes) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error.into()),
            };
            length += count as u64;
            self.check(length)?;
            if let Some(content) = pieces.next(&bytes[..count])? {
                content.say(call, &piece)?;
            }
        }
        if let Some(content) = pieces.rest()? {
            content.say(call, &piece)?;
        }
        Ok(answer(&Streamed { head, length }))
    }

    fn check(&self, length: u64) -> Result<(), TaskFailure> {
        if length > self.bytes_max { Err(more_than(self.bytes_max)) } else { Ok(()) }
    }
}

fn more_than(bytes_max: u64) -> TaskFailure {
    too_large("the body is longer", bytes_max, "raise http.body_bytes_max")
}
