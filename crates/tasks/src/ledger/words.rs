//! How numbers and texts are laid out in a record: little endian, texts with their length before them.
//!
//! Records are written a hundred thousand times a second and read back by the million, so there is no parser between
//! the bytes and the fields. Reading never trusts a length: what does not fit is no record of ours.
//!
//! Not here: which fields a record has (`records.rs`).

use crate::error::{ErrorCode, Position, TaskFailure};
use crate::request::TaskId;
use serde_json::value::RawValue;

pub(super) struct Writer(pub(super) Vec<u8>);

impl Writer {
    pub(super) fn new(capacity: usize) -> Self {
        Self(Vec::with_capacity(capacity))
    }

    pub(super) fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    pub(super) fn number(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    pub(super) fn small(&mut self, number: u32) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    pub(super) fn text(&mut self, text: &str) {
        self.small(u32::try_from(text.len()).unwrap_or(u32::MAX));
        self.0.extend_from_slice(text.as_bytes());
    }

    /// A number that may be missing.
    pub(super) fn perhaps(&mut self, number: Option<u64>) {
        self.byte(u8::from(number.is_some()));
        number.into_iter().for_each(|number| self.number(number));
    }

    /// A text that may be missing.
    pub(super) fn perhaps_text(&mut self, text: Option<&str>) {
        self.byte(u8::from(text.is_some()));
        text.into_iter().for_each(|text| self.text(text));
    }

    pub(super) fn id(&mut self, id: &TaskId) {
        match id {
            TaskId::Number(number) => {
                self.byte(0);
                self.number(*number);
            }
            TaskId::Assigned(number) => {
                self.byte(1);
                self.number(*number);
            }
            TaskId::Name(name) => {
                self.byte(2);
                self.text(name);
            }
        }
    }

    pub(super) fn failure(&mut self, failure: &TaskFailure) {
        self.small(failure.code.number().cast_unsigned());
        self.text(&failure.message);
        self.perhaps(failure.at.map(|at| at.line));
        self.number(failure.at.map_or(0, |at| at.column));
    }
}

/// Takes fields from the front. Each is none if the bytes are not what was written.
#[derive(Clone)]
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*head)
    }

    pub(super) fn byte(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(super) fn number(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(super) fn small(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn text(&mut self) -> Option<&'a str> {
        let bytes = self.small()? as usize;
        let (head, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        std::str::from_utf8(head).ok()
    }

    pub(super) fn json(&mut self) -> Option<Box<RawValue>> {
        RawValue::from_string(self.text()?.to_owned()).ok()
    }

    pub(super) fn perhaps(&mut self) -> Option<Option<u64>> {
        match self.byte()? {
            0 => Some(None),
            1 => self.number().map(Some),
            _ => None,
        }
    }

    pub(super) fn perhaps_text(&mut self) -> Option<Option<&'a str>> {
        match self.byte()? {
            0 => Some(None),
            1 => self.text().map(Some),
            _ => None,
        }
    }

    pub(super) fn id(&mut self) -> Option<TaskId> {
        Some(match self.byte()? {
            0 => TaskId::Number(self.number()?),
            1 => TaskId::Assigned(self.number()?),
            2 => TaskId::Name(self.text()?.into()),
            _ => return None,
        })
    }

    pub(super) fn failure(&mut self) -> Option<TaskFailure> {
        // A code of a later release is still a failure.
        let code = ErrorCode::from_number(self.small()?.cast_signed()).unwrap_or(ErrorCode::Internal);
        let message = self.text()?.to_owned();
        let line = self.perhaps()?;
        let column = self.number()?;
        Some(TaskFailure { code, message, at: line.map(|line| Position { line, column }) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_back_and_a_part_of_it_is_not() {
        let failure = TaskFailure {
            code: ErrorCode::BadArguments,
            message: "args: ü".to_owned(),
            at: Some(Position { line: 3, column: 9 }),
        };
        let mut writer = Writer::new(0);
        writer.id(&TaskId::Name("a".into()));
        writer.perhaps(Some(7));
        writer.perhaps_text(None);
        writer.failure(&failure);
        let read = |bytes: &[u8]| {
            let mut reader = Reader(bytes);
            Some((reader.id()?, reader.perhaps()?, reader.perhaps_text()?.is_none(), reader.failure()?))
        };
        assert_eq!(read(&writer.0), Some((TaskId::Name("a".into()), Some(7), true, failure)));
        for end in 0..writer.0.len() {
            assert_eq!(read(&writer.0[..end]), None, "{end} bytes");
        }
        assert_eq!(Reader(&[255, 255, 255, 255, 1]).text(), None, "a length that lies");
    }
}
