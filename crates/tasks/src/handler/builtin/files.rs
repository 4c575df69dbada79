//! `file_read` and `file_write`: whole files, parts of files and streams, below the directories that are
//! allowed.
//!
//! Nothing is allowed unless the configuration says so. What is read into one answer is bounded; a longer
//! file is read in parts or as a stream, which holds no more than a piece at a time. Disks may keep one
//! waiting, so another worker stands in meanwhile.
//!
//! Not here: which file a path means (`beneath.rs`), how a file is put in place (`put.rs`).

mod beneath;
mod put;

#[cfg(test)]
mod attacks;

use super::arguments::Arguments;
use super::content::{Content, Encoding, PIECE_BYTES, Pieces};
use super::{about, answer, buffer_for, too_large};
use crate::call::Call;
use crate::error::TaskFailure;
use crate::handler::{About, Handler};
use beneath::Place;
use rustix::fs::OFlags;
use serde::Serialize;
use serde_json::value::RawValue;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::PathBuf;
use std::sync::Arc;

const READ_ARGUMENTS: &[&str] = &["path", "offset", "length", "encoding", "stream"];
const WRITE_ARGUMENTS: &[&str] = &["path", "data", "mode", "encoding"];

pub(super) struct FileRead {
    pub(super) allowed: Arc<[PathBuf]>,
    pub(super) bytes_max: u64,
}

pub(super) struct FileWrite {
    pub(super) allowed: Arc<[PathBuf]>,
    pub(super) bytes_max: u64,
}

/// A file, or a part of one.
#[derive(Serialize)]
struct Part<'a> {
    data: &'a str,
    encoding: &'static str,
    length: usize,
    size: u64,
}

/// A partial result of a stream.
#[derive(Serialize)]
struct Piece<'a> {
    data: &'a str,
    encoding: &'static str,
}

/// What is said when a stream is over.
#[derive(Serialize)]
struct Streamed {
    length: u64,
    size: u64,
}

#[derive(Serialize)]
struct Written {
    length: usize,
}

/// What to do about a file that is there.
#[derive(Clone, Copy)]
enum WriteMode {
    Create,
    Append,
    Replace,
}

impl Handler for FileRead {
    fn start(&self, call: Call) {
        let outcome = millpond::blocking(|| self.read(&call));
        call.finish(outcome);
    }

    fn about(&self) -> About {
        about(
            "Reads a file, or a part of one, below an allowed directory.",
            r#"{"path": "/srv/data/in.txt"}"#,
        )
    }
}

/// A file from where it is to be read.
struct Opened {
    file: File,
    place: Place,
    /// How large the whole file was when it was opened.
    size: u64,
    /// How much of it lies behind the offset.
    rest: u64,
}

impl FileRead {
    fn read(&self, call: &Call) -> Result<Box<RawValue>, TaskFailure> {
        let arguments = Arguments::read("file_read", call.args(), READ_ARGUMENTS)?;
        let path = arguments.needed_string("path")?;
        let offset = arguments.bytes("offset")?.unwrap_or(0) as u64;
        let length = arguments.bytes("length")?.map(|length| length as u64);
        let encoding = Encoding::asked(&arguments)?;
        let stream = arguments.switch("stream")?;
        let place = Place::find(&self.allowed, &path)?;
        let mut file = place.open(OFlags::RDONLY)?;
        let size = file.metadata().map_err(|error| place.failed(error))?.len();
        file.seek(SeekFrom::Start(offset)).map_err(|error| place.failed(error))?;
        let opened = Opened { file, place, size, rest: size.saturating_sub(offset) };
        if stream {
            self.stream(call, opened, length, encoding)
        } else {
            self.whole(opened, length, encoding)
        }
    }

    fn whole(
        &self,
        opened: Opened,
        length: Option<u64>,
        encoding: Option<Encoding>,
    ) -> Result<Box<RawValue>, TaskFailure> {
        let Opened { file, place, size, rest } = opened;
        let refused = || {
            let what = format!("args.path: {}: {rest} bytes", place.shown());
            too_large(&what, self.bytes_max, "ask for a part with offset and length, or for a stream")
        };
        let wanted = length.unwrap_or(u64::MAX);
        if wanted.min(rest) > self.bytes_max {
            return Err(refused());
        }
        // The file may grow while it is read, and what the system makes up has no size beforehand.
        let mut bytes = buffer_for(wanted.min(rest) as usize)?;
        file.take(wanted.min(self.bytes_max + 1))
            .read_to_end(&mut bytes)
            .map_err(|error| place.failed(error))?;
        if bytes.len() as u64 > self.bytes_max {
            return Err(refused());
        }
        let length = bytes.len();
        let Content { text, encoding } = Content::new(bytes, encoding)?;
        Ok(answer(&Part { data: &text, encoding: encoding.name(), length, size }))
    }

    fn stream(
        &self,
        call: &Call,
        opened: Opened,
        length: Option<u64>,
        encoding: Option<Encoding>,
    ) -> Result<Box<RawValue>, TaskFailure> {
        let Opened { file, place, size, rest } = opened;
        // A file that grows faster than it is read has an end all the same.
        let mut file = file.take(length.unwrap_or(rest.max(self.bytes_max)));
        let mut pieces = Pieces::new(encoding);
        let mut bytes = vec![0; PIECE_BYTES];
        let mut total = 0;
        loop {
            let count = file.read(&mut bytes).map_err(|error| place.failed(error))?;
            if count == 0 {
                break;
            }
            total += count as u64;
            if let Some(content) = pieces.next(&bytes[..count])? {
                content.say(call, &piece)?;
            }
        }
        if let Some(content) = pieces.rest()? {
            content.say(call, &piece)?;
        }
        Ok(answer(&Streamed { length: total, size }))
    }
}

fn piece(content: &Content) -> Box<RawValue> {
    answer(&Piece { data: &content.text, encoding: content.encoding.name() })
}

impl Handler for FileWrite {
    fn start(&self, call: Call) {
        let outcome = millpond::blocking(|| self.write(&call));
        call.finish(outcome);
    }

    fn about(&self) -> About {
        about(
            "Writes a file below an allowed directory.",
            r#"{"path": "/srv/data/out.txt", "data": "hello", "mode": "replace"}"#,
        )
    }
}

impl FileWrite {
    fn write(&self, call: &Call) -> Result<Box<RawValue>, TaskFailure> {
        let arguments = Arguments::read("file_write", call.args(), WRITE_ARGUMENTS)?;
        let path = arguments.needed_string("path")?;
        let encoding = Encoding::asked(&arguments)?.unwrap_or(Encoding::Utf8);
        let data = encoding.decode("data", arguments.needed_string("data")?)?;
        let modes =
            [("create", WriteMode::Create), ("append", WriteMode::Append), ("replace", WriteMode::Replace)];
        let mode = arguments.word("mode", &modes)?.unwrap_or(WriteMode::Create);
        let place = Place::find(&self.allowed, &path)?;
        if data.len() as u64 > self.bytes_max {
            let what = format!("args.data: {} bytes", data.len());
            return Err(too_large(&what, self.bytes_max, "append it in parts"));
        }
        match mode {
            WriteMode::Create => put::create(&place, &data)?,
            WriteMode::Replace => put::replace(&place, &data)?,
            WriteMode::Append => {
                let mut file = place.open_or_create(OFlags::WRONLY | OFlags::APPEND)?;
                file.write_all(&data).map_err(|error| place.failed(error))?;
            }
        }
        Ok(answer(&Written { length: data.len() }))
    }
}
