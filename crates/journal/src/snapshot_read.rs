//! A snapshot read from front to back, through a window: it may be much larger than memory should be.
//!
//! A snapshot got its name after it was synced, so whatever is wrong with it is damage. It must end with the mark that
//! says how many records it has, and with nothing behind.

use crate::disk::{DiskFile, read_up_to};
use crate::error::OpenError;
use crate::frame::{FRAME_BYTES, Form, Frame};
use crate::header::{HEADER_BYTES, Header};
use crate::record::Record;
use crate::scan::record_of;
use std::path::Path;

const WINDOW_BYTES: usize = 4 << 20;

/// What a snapshot came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SnapshotRead {
    pub(crate) records: u64,
    pub(crate) bytes: u64,
}

/// Hands out every record of a snapshot whose header was read already.
pub(crate) fn read(
    file: &dyn DiskFile,
    path: &Path,
    header: &Header,
    take: &mut dyn FnMut(Record<'_>),
) -> Result<SnapshotRead, OpenError> {
    let bytes = file.length().map_err(OpenError::io(path, "cannot be measured"))?;
    let mut window = Window { file, path, buffer: Vec::new(), filled: 0, at: 0, offset: HEADER_BYTES as u64 };
    let seed = header.seed();
    let mut records = 0;
    loop {
        let damaged = |offset: u64, what: &str| {
            Err(OpenError::Damaged { path: path.to_owned(), offset, what: what.to_owned() })
        };
        let offset = window.offset;
        let Some(frame) = Frame::decode(window.get(FRAME_BYTES)?, seed) else {
            return damaged(offset, "the checksum of a record's head is wrong, or its end is missing");
        };
        let whole = window.get(frame.bytes())?;
        let Some(payload) = frame.payload(whole).filter(|_| whole.len() == frame.bytes()) else {
            return damaged(offset, "the checksum of a record's payload is wrong");
        };
        if frame.sequence != records {
            return damaged(offset, "a record out of sequence");
        }
        if frame.form == Form::Footer {
            let end = offset + frame.bytes() as u64;
            if payload != records.to_le_bytes() || end != bytes {
                return damaged(offset, "the end mark does not fit");
            }
            return Ok(SnapshotRead { records, bytes });
        }
        let Some(record) = record_of(&frame, payload) else {
            return damaged(offset, "a record that no snapshot has");
        };
        take(record);
        records += 1;
        window.advance(frame.bytes());
    }
}

struct Window<'a> {
    file: &'a dyn DiskFile,
    path: &'a Path,
    buffer: Vec<u8>,
    filled: usize,
    /// Of the next record: in the buffer, and in the file.
    at: usize,
    offset: u64,
}

impl Window<'_> {
    /// The next bytes of the file, fewer if it ends.
    fn get(&mut self, bytes: usize) -> Result<&[u8], OpenError> {
        if self.filled - self.at < bytes {
            self.buffer.copy_within(self.at..self.filled, 0);
            self.filled -= self.at;
            self.at = 0;
            let left = self.file.length().map_err(OpenError::io(self.path, "cannot be measured"))?;
            let left = usize::try_from(left.saturating_sub(self.offset)).unwrap_or(usize::MAX);
            // A length that was read from the file is not believed further than the file goes.
            let wanted = WINDOW_BYTES.max(bytes).min(left).max(self.filled);
            self.buffer.resize(wanted.max(self.buffer.len().min(WINDOW_BYTES)), 0);
            let from = self.offset + self.filled as u64;
            let read = read_up_to(self.file, &mut self.buffer[self.filled..], from);
            self.filled += read.map_err(OpenError::io(self.path, "cannot be read"))?;
        }
        let end = (self.at + bytes).min(self.filled);
        Ok(&self.buffer[self.at..end])
    }

    fn advance(&mut self, bytes: usize) {
        self.at += bytes;
        self.offset += bytes as u64;
    }
}
