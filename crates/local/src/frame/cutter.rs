//! Cuts a stream of bytes into frames: one buffer, filled by large reads, emptied frame by frame.
//!
//! ```text
//!        start          end           room for the next read
//!  ┌─────┬──────────────┬──────────────────────────────────┐
//!  │ cut │ not yet cut  │                                  │ buffer
//!  └─────┴──────────────┴──────────────────────────────────┘
//! ```
//!
//! A frame is handed out where it lies. Only the beginning of a frame whose end has not come is ever moved,
//! to the front, before the next read. The buffer grows when a frame within the limit fills it, by what has
//! really come, so that a header alone buys no memory; it shrinks again when it is empty. A payload over the
//! limit is counted and dropped.
//!
//! Not here: what is done about a frame that is too large or of no known kind.

use super::{HEADER_BYTES, Header};
use std::io;

/// How much room a read finds at least.
const READ_BYTES_MIN: usize = 64 * 1024;
/// How large a buffer begins: with half a frame at its front, a read still finds its room.
const BUFFER_BYTES_MIN: usize = 2 * READ_BYTES_MIN;
/// A larger buffer is given back as soon as it is empty.
const BUFFER_BYTES_IDLE_MAX: usize = 4 * READ_BYTES_MIN;

/// Whole frames out of pieces of a stream.
#[derive(Debug)]
pub struct Cutter {
    /// Everything before `end` has come.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Bytes that are still to come of a payload nobody wants.
    skip: usize,
    payload_bytes_max: usize,
}

/// What stands next in the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut<'a> {
    /// A whole frame.
    Whole(Header, &'a [u8]),
    /// The header of a frame whose payload is over the limit. The payload will be stepped over.
    TooLarge(Header),
    /// More bytes have to come first.
    Unfinished,
}

impl Cutter {
    /// Takes payloads of at most `payload_bytes_max`. Stores nothing yet.
    pub fn new(payload_bytes_max: usize) -> Self {
        Self { buffer: Vec::new(), start: 0, end: 0, skip: 0, payload_bytes_max }
    }

    /// The most bytes of a payload.
    pub fn payload_bytes_max(&self) -> usize {
        self.payload_bytes_max
    }

    /// Lets `read` put bytes into the free room, once. Says how many came; 0 is the end of the stream.
    pub fn fill(&mut self, read: impl FnOnce(&mut [u8]) -> io::Result<usize>) -> io::Result<usize> {
        self.make_room();
        let room = &mut self.buffer[self.end..];
        let bytes = read(room)?.min(room.len());
        self.end += bytes;
        self.step_over();
        Ok(bytes)
    }

    /// The next frame. Call it until it is [`Cut::Unfinished`], then [`fill`](Self::fill) again.
    pub fn cut(&mut self) -> Cut<'_> {
        let Some((header, whole)) = self.header() else { return Cut::Unfinished };
        let payload = self.start + HEADER_BYTES;
        if header.payload_bytes as usize > self.payload_bytes_max {
            self.start = payload;
            self.skip = header.payload_bytes as usize;
            self.step_over();
            return Cut::TooLarge(header);
        }
        if self.end - self.start < whole {
            return Cut::Unfinished;
        }
        self.start += whole;
        Cut::Whole(header, &self.buffer[payload..self.start])
    }

    /// The header of what [`cut`](Self::cut) will say next; none if more bytes have to come first.
    pub fn peek(&self) -> Option<Header> {
        let (header, whole) = self.header()?;
        let too_large = header.payload_bytes as usize > self.payload_bytes_max;
        (too_large || self.end - self.start >= whole).then_some(header)
    }

    /// Whether the stream may end here: no frame has begun.
    pub fn is_between_frames(&self) -> bool {
        self.skip == 0 && self.start == self.end
    }

    /// Drops what has come of a payload nobody wants. While some of it is missing, nothing behind it is
    /// there.
    fn step_over(&mut self) {
        let skipped = self.skip.min(self.end - self.start);
        self.skip -= skipped;
        self.start += skipped;
    }

    /// The header at `start`, and how long the frame is with it.
    fn header(&self) -> Option<(Header, usize)> {
        let bytes = self.buffer[self.start..self.end].first_chunk::<HEADER_BYTES>()?;
        let header = Header::from_bytes(bytes);
        Some((header, HEADER_BYTES.saturating_add(header.payload_bytes as usize)))
    }

    /// At least `READ_BYTES_MIN` bytes behind `end`.
    fn make_room(&mut self) {
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
            if self.buffer.len() > BUFFER_BYTES_IDLE_MAX {
                self.buffer = Vec::new();
            }
        }
        if self.buffer.len() - self.end >= READ_BYTES_MIN {
            return;
        }
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        if self.buffer.len() - self.end < READ_BYTES_MIN {
            // Twice what has come: a large frame is moved few times, and every byte of room is paid for in
            // bytes.
            self.buffer.resize((2 * self.end).max(BUFFER_BYTES_MIN), 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Flags, Kind, append};
    use super::*;

    /// Feeds `stream` in pieces of `piece` bytes and notes every cut.
    fn cuts(stream: &[u8], piece: usize, payload_bytes_max: usize) -> Vec<(u64, Option<Vec<u8>>)> {
        let mut cutter = Cutter::new(payload_bytes_max);
        let mut found = Vec::new();
        for piece in stream.chunks(piece) {
            let mut rest = piece;
            while !rest.is_empty() {
                let taken = cutter.fill(|room| io::Read::read(&mut rest, room)).unwrap();
                assert!(taken > 0, "there is always room");
                loop {
                    match cutter.cut() {
                        Cut::Whole(header, payload) => found.push((header.tag, Some(payload.to_vec()))),
                        Cut::TooLarge(header) => found.push((header.tag, None)),
                        Cut::Unfinished => break,
                    }
                }
            }
        }
        assert!(cutter.is_between_frames());
        found
    }

    fn stream_of(sizes: &[usize]) -> Vec<u8> {
        let mut stream = Vec::new();
        for (tag, size) in sizes.iter().enumerate() {
            append(&mut stream, Kind::Ping, Flags::NONE, tag as u64, |out| {
                out.resize(out.len() + size, tag as u8)
            });
        }
        stream
    }

    #[test]
    fn frames_come_out_whole_however_the_stream_is_cut() {
        let sizes = [0, 1, 15, 16, 17, 1000, 0, 70_000, 3, 200_000, 0];
        let stream = stream_of(&sizes);
        let expected: Vec<_> =
            sizes.iter().enumerate().map(|(tag, size)| (tag as u64, Some(vec![tag as u8; *size]))).collect();
        for piece in [1, 2, 7, 16, 17, 4096, 65_536, 1 << 20] {
            assert_eq!(cuts(&stream, piece, 1 << 20), expected, "pieces of {piece}");
        }
    }

    #[test]
    fn a_payload_over_the_limit_is_stepped_over_and_the_next_frame_is_found() {
        let stream = stream_of(&[10, 101, 100, 300_000, 5]);
        let expected = [(0, Some(10)), (1, None), (2, Some(100)), (3, None), (4, Some(5))];
        for piece in [1, 3, 116, 4096, 1 << 20] {
            let found: Vec<_> = cuts(&stream, piece, 100)
                .into_iter()
                .map(|(tag, payload)| (tag, payload.map(|it| it.len())))
                .collect();
            assert_eq!(found, expected, "pieces of {piece}");
        }
    }

    #[test]
    fn a_header_alone_buys_no_memory() {
        let mut cutter = Cutter::new(1 << 30);
        let header =
            Header { payload_bytes: 1 << 30, kind: 1, flags: Flags::NONE, reserved: 0, tag: 0 }.to_bytes();
        cutter.fill(|room| io::Read::read(&mut &header[..], room)).unwrap();
        assert_eq!(cutter.cut(), Cut::Unfinished);
        cutter.fill(|_| Ok(0)).unwrap();
        assert!(cutter.buffer.len() <= BUFFER_BYTES_MIN);
        assert!(!cutter.is_between_frames());
    }

    #[test]
    fn what_is_too_large_is_not_stored_and_a_large_buffer_is_given_back() {
        let mut cutter = Cutter::new(1 << 20);
        let mut stream = &stream_of(&[1 << 20, (1 << 20) + 1])[..];
        let mut largest = 0;
        while !stream.is_empty() {
            cutter.fill(|room| io::Read::read(&mut stream, room)).unwrap();
            largest = largest.max(cutter.buffer.len());
            while cutter.cut() != Cut::Unfinished {}
        }
        assert!((1 << 20..=3 << 20).contains(&largest), "{largest}");
        cutter.fill(|_| Ok(0)).unwrap();
        assert!(cutter.buffer.len() <= BUFFER_BYTES_IDLE_MAX);
    }
}
