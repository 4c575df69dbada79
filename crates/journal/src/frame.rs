//! The layout of a record in a file.
//!
//! ```text
//!  0  u32  checksum of bytes 4..40, begun with the log's own number
//!  4  u32  checksum of the payload
//!  8  u32  payload bytes
//! 12  u32  up to which offset of this file everything was synced when this record was written
//! 16  u64  sequence number: one more than the record before
//! 24  u64  key           (the caller's)
//! 32  u8   kind          (the caller's)
//! 33  u8   form          (ours: plain, spilled, closed, footer)
//! 34  u16  how many records of the same append still follow
//! 36  u32  zero
//! 40       payload, then zeros up to a multiple of 8
//! ```
//!
//! Two checksums, because the submitter can compute the payload's while nobody waits for it, and because a sound head
//! tells the length even when the payload is damaged. `synced` is what makes a torn tail and damage different: a
//! record that says "everything before me was synced" proves that what is broken before it was whole once.
//!
//! All numbers are little-endian.

use crc32c::{crc32c, crc32c_append};

/// Bytes of a record before its payload.
pub(crate) const FRAME_BYTES: usize = 40;
/// Records begin at multiples of this, so that one can be found again behind damage.
pub(crate) const ALIGNMENT: usize = 8;

/// What a record is to the journal itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Form {
    /// The payload is the caller's bytes. Not zero, so that no record is all zeros.
    Plain = 1,
    /// The payload is a `SpillRef`.
    Spilled = 2,
    /// The journal was closed here in good order.
    Closed = 3,
    /// The end of a snapshot.
    Footer = 4,
}

impl Form {
    fn of(byte: u8) -> Option<Self> {
        [Self::Plain, Self::Spilled, Self::Closed, Self::Footer].into_iter().find(|form| *form as u8 == byte)
    }
}

/// The head of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) payload_crc: u32,
    pub(crate) payload_bytes: u32,
    pub(crate) synced: u32,
    pub(crate) sequence: u64,
    pub(crate) key: u64,
    pub(crate) kind: u8,
    pub(crate) form: Form,
    pub(crate) more: u16,
}

impl Frame {
    /// A head whose place is not known yet; the writer stamps it.
    pub(crate) fn new(kind: u8, key: u64, form: Form, payload: &[u8]) -> Self {
        // Payloads above four gigabytes cannot be configured: `batch_bytes_max` is below a segment's limit.
        let payload_bytes = u32::try_from(payload.len()).unwrap_or(u32::MAX);
        let payload_crc = crc32c(payload);
        Self { payload_crc, payload_bytes, synced: 0, sequence: 0, key, kind, form, more: 0 }
    }

    pub(crate) fn encode(&self, seed: u32) -> [u8; FRAME_BYTES] {
        let mut bytes = [0; FRAME_BYTES];
        bytes[4..8].copy_from_slice(&self.payload_crc.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.payload_bytes.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.synced.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.key.to_le_bytes());
        bytes[32] = self.kind;
        bytes[33] = self.form as u8;
        bytes[34..36].copy_from_slice(&self.more.to_le_bytes());
        seal(&mut bytes, seed);
        bytes
    }

    /// The head at the start of `bytes`, if its checksum is right.
    pub(crate) fn decode(bytes: &[u8], seed: u32) -> Option<Self> {
        let bytes: &[u8; FRAME_BYTES] = bytes.first_chunk()?;
        if word(bytes, 0) != crc32c_append(seed, &bytes[4..]) {
            return None;
        }
        Some(Self {
            payload_crc: word(bytes, 4),
            payload_bytes: word(bytes, 8),
            synced: word(bytes, 12),
            sequence: long(bytes, 16),
            key: long(bytes, 24),
            kind: bytes[32],
            form: Form::of(bytes[33])?,
            more: u16::from_le_bytes([bytes[34], bytes[35]]),
        })
    }

    /// Bytes of the whole record with its padding.
    pub(crate) fn bytes(&self) -> usize {
        framed_bytes(self.payload_bytes as usize)
    }

    /// The payload, if it is all there and its checksum is right. `bytes` begins with the head.
    pub(crate) fn payload<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let payload = bytes.get(FRAME_BYTES..FRAME_BYTES + self.payload_bytes as usize)?;
        (crc32c(payload) == self.payload_crc).then_some(payload)
    }
}

/// How many bytes a payload takes with its frame.
pub(crate) fn framed_bytes(payload_bytes: usize) -> usize {
    (FRAME_BYTES + payload_bytes).next_multiple_of(ALIGNMENT)
}

/// Adds a record to a buffer that will be stamped.
pub(crate) fn push(buffer: &mut Vec<u8>, frame: &Frame, payload: &[u8]) {
    let end = buffer.len() + framed_bytes(payload.len());
    buffer.extend_from_slice(&frame.encode(0));
    buffer.extend_from_slice(payload);
    buffer.resize(end, 0);
}

/// Gives every record in the buffer its sequence number, what was synced before, and its checksum. Returns the
/// sequence number after the last.
pub(crate) fn stamp(buffer: &mut [u8], seed: u32, synced: u32, mut sequence: u64) -> u64 {
    let mut at = 0;
    while let Some(head) = buffer.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<FRAME_BYTES>()) {
        head[12..16].copy_from_slice(&synced.to_le_bytes());
        head[16..24].copy_from_slice(&sequence.to_le_bytes());
        seal(head, seed);
        at += framed_bytes(word(head, 8) as usize);
        sequence += 1;
    }
    sequence
}

fn seal(head: &mut [u8; FRAME_BYTES], seed: u32) {
    let crc = crc32c_append(seed, &head[4..]);
    head[..4].copy_from_slice(&crc.to_le_bytes());
}

fn word(bytes: &[u8; FRAME_BYTES], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn long(bytes: &[u8; FRAME_BYTES], at: usize) -> u64 {
    u64::from(word(bytes, at)) | u64::from(word(bytes, at + 4)) << 32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame() -> Frame {
        let blank = Frame::new(9, u64::MAX - 3, Form::Spilled, b"payload");
        Frame { synced: 4096, sequence: 1 << 40, more: 2, ..blank }
    }

    #[test]
    fn a_frame_comes_back_as_it_went_in() {
        assert_eq!(Frame::decode(&frame().encode(5), 5), Some(frame()));
    }

    #[test]
    fn every_flipped_bit_of_a_frame_is_noticed() {
        let bytes = frame().encode(5);
        for bit in 0..FRAME_BYTES * 8 {
            let mut flipped = bytes;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Frame::decode(&flipped, 5), None, "bit {bit}");
        }
        assert_eq!(Frame::decode(&bytes, 6), None, "a record of another log");
        assert_eq!(Frame::decode(&bytes[..39], 5), None);
        assert_eq!(Frame::decode(&[0; FRAME_BYTES], 0), None, "zeros are no record");
    }

    #[test]
    fn a_stamped_buffer_has_records_in_sequence() {
        let mut buffer = Vec::new();
        for payload in [&b""[..], b"one", b"12345678", &[7; 300]] {
            push(&mut buffer, &Frame::new(1, 2, Form::Plain, payload), payload);
        }
        assert_eq!(stamp(&mut buffer, 77, 64, 10), 14);
        let (mut at, mut sequences, mut lengths) = (0, Vec::new(), Vec::new());
        while let Some(frame) = Frame::decode(&buffer[at..], 77) {
            assert_eq!(frame.synced, 64);
            lengths.push(frame.payload(&buffer[at..]).unwrap().len());
            sequences.push(frame.sequence);
            at += frame.bytes();
        }
        assert_eq!((at, sequences, lengths), (buffer.len(), vec![10, 11, 12, 13], vec![0, 3, 8, 300]));
    }
}
