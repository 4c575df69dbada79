//! Cuts what a process writes into lines, and gives up on a line that is too long.
//!
//! A program may write a line of any length; how much of it is ever held is decided here. Bytes that were
//! searched for a line break are not searched again, so a long line that arrives in small pieces costs no
//! more than a short one. The room of a very long line is given back once it is read.

use memchr::memchr;
use std::io::{self, ErrorKind, Read};

/// How much is read at once: what a pipe holds.
pub(super) const CHUNK_BYTES: usize = 64 * 1024;
/// Room beyond this is not kept for the next line.
const ROOM_KEPT: usize = 4 * CHUNK_BYTES;

/// What came of reading.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Filled {
    /// There is more to cut.
    Some,
    /// Nothing more, for now.
    Nothing,
    /// Nothing more, ever.
    End,
}

/// Bytes between a pipe and its lines.
#[derive(Debug)]
pub(super) struct LineBuffer {
    bytes: Vec<u8>,
    /// Where the next line begins.
    start: usize,
    /// Up to where there is no line break.
    searched: usize,
    line_bytes_max: usize,
}

/// A line was longer than it may be.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LineTooLong;

impl LineBuffer {
    pub(super) fn new(line_bytes_max: usize) -> Self {
        Self { bytes: Vec::new(), start: 0, searched: 0, line_bytes_max }
    }

    /// Reads once from a pipe that does not block.
    pub(super) fn fill(&mut self, source: &mut impl Read, chunk: &mut [u8]) -> io::Result<Filled> {
        self.make_room();
        match source.read(chunk) {
            Ok(0) => Ok(Filled::End),
            Ok(count) => {
                self.bytes.extend_from_slice(&chunk[..count]);
                Ok(Filled::Some)
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                Ok(Filled::Nothing)
            }
            Err(error) => Err(error),
        }
    }

    /// The next whole line without its line break.
    pub(super) fn next_line(&mut self) -> Option<Result<&[u8], LineTooLong>> {
        let Some(at) = memchr(b'\n', &self.bytes[self.searched..]) else {
            self.searched = self.bytes.len();
            let is_too_long = self.bytes.len() - self.start > self.line_bytes_max;
            return is_too_long.then_some(Err(LineTooLong));
        };
        let (start, end) = (self.start, self.searched + at);
        (self.start, self.searched) = (end + 1, end + 1);
        let is_too_long = end - start > self.line_bytes_max;
        Some(if is_too_long { Err(LineTooLong) } else { Ok(&self.bytes[start..end]) })
    }

    /// What has not been cut into lines yet, whole or not.
    pub(super) fn rest(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    fn make_room(&mut self) {
        self.bytes.drain(..self.start);
        self.searched -= self.start;
        self.start = 0;
        if self.bytes.len() < ROOM_KEPT {
            self.bytes.shrink_to(ROOM_KEPT);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives its pieces one at a time.
    struct Pieces(Vec<&'static [u8]>);

    impl Read for Pieces {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            if self.0.is_empty() {
                return Err(ErrorKind::WouldBlock.into());
            }
            let piece = self.0.remove(0);
            into[..piece.len()].copy_from_slice(piece);
            Ok(piece.len())
        }
    }

    fn lines(buffer: &mut LineBuffer, pieces: Vec<&'static [u8]>) -> Vec<Result<String, LineTooLong>> {
        let (mut pieces, mut chunk, mut found) = (Pieces(pieces), [0; 64], Vec::new());
        while buffer.fill(&mut pieces, &mut chunk).unwrap() == Filled::Some {
            while let Some(line) = buffer.next_line() {
                let stop = line.is_err();
                found.push(line.map(|line| String::from_utf8(line.to_vec()).unwrap()));
                if stop {
                    return found;
                }
            }
        }
        found
    }

    #[test]
    fn lines_are_cut_wherever_the_pieces_end() {
        let mut buffer = LineBuffer::new(10);
        let found = lines(&mut buffer, vec![b"a", b"b\nc\n\n", b"\n", b"de", b"f"]);
        assert_eq!(found, ["ab", "c", "", ""].map(|line| Ok(line.to_owned())));
        assert_eq!(buffer.rest(), b"def");
        assert_eq!(lines(&mut buffer, vec![b"g\n"]), [Ok("defg".to_owned())]);
        assert_eq!(buffer.rest(), b"");
    }

    #[test]
    fn a_line_may_be_as_long_as_allowed_and_not_a_byte_longer() {
        let fits = lines(&mut LineBuffer::new(3), vec![b"123\n123", b"\n"]);
        assert_eq!(fits, ["123", "123"].map(|line| Ok(line.to_owned())));
        let whole = lines(&mut LineBuffer::new(3), vec![b"123\n1234\n5\n"]);
        assert_eq!(whole, [Ok("123".to_owned()), Err(LineTooLong)]);
        let unended = lines(&mut LineBuffer::new(3), vec![b"12", b"34"]);
        assert_eq!(unended, [Err(LineTooLong)], "it does not wait for the end");
    }

    #[test]
    fn the_room_of_a_long_line_is_given_back() {
        let mut buffer = LineBuffer::new(usize::MAX);
        let mut chunk = vec![0; CHUNK_BYTES];
        for _ in 0..64 {
            buffer.fill(&mut io::repeat(b'x'), &mut chunk).unwrap();
            assert_eq!(buffer.next_line(), None);
        }
        assert!(buffer.bytes.capacity() >= 64 * CHUNK_BYTES);
        buffer.fill(&mut &b"\n"[..], &mut chunk).unwrap();
        assert_eq!(buffer.next_line().unwrap().unwrap().len(), 64 * CHUNK_BYTES);
        assert_eq!(buffer.fill(&mut Pieces(Vec::new()), &mut chunk).unwrap(), Filled::Nothing);
        assert!(buffer.bytes.capacity() <= ROOM_KEPT);
    }
}
