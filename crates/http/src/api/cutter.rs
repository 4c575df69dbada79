//! Cuts a body that comes in pieces into lines, in bounded memory.
//!
//! A line that is longer than the limit is cut down to one byte more than that, which whoever reads it then
//! refuses; the rest of it is passed over without being kept.
//!
//! Not here: lines of a file that grows (`Lines` in the crate `millpond-tasks`).

use bytes::{Buf, Bytes, BytesMut};

/// The lines of one body.
#[derive(Debug)]
pub(super) struct Cutter {
    bytes_max: usize,
    /// What came and was not handed out.
    kept: BytesMut,
    /// So much of it is known to have no line break.
    searched: usize,
    /// The line that is being collected is too long already; its beginning is in `kept`.
    is_too_long: bool,
    /// Lines that were handed out or blank.
    number: u64,
}

/// One line that is not blank.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// From 1, blank lines counted.
    pub(super) number: u64,
    pub(super) text: Bytes,
}

impl Cutter {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { bytes_max, kept: BytesMut::new(), searched: 0, is_too_long: false, number: 0 }
    }

    /// More of the body has come. Lines should have been taken out before.
    pub(super) fn push(&mut self, piece: &[u8]) {
        self.kept.extend_from_slice(piece);
    }

    /// How much is kept.
    pub(super) fn len(&self) -> usize {
        self.kept.len()
    }

    /// The next whole line.
    pub(super) fn next_line(&mut self) -> Option<Line> {
        loop {
            let found = self.kept[self.searched..].iter().position(|byte| *byte == b'\n');
            let Some(end) = found.map(|at| self.searched + at) else {
                self.pass_over();
                return None;
            };
            let mut text = self.kept.split_to(end).freeze();
            self.kept.advance(1);
            if self.is_too_long {
                text.truncate(self.bytes_max + 1);
            }
            if let Some(line) = self.line(text) {
                return Some(line);
            }
        }
    }

    /// What stands behind the last line break, once the body has ended.
    pub(super) fn last_line(&mut self) -> Option<Line> {
        let mut text = self.kept.split().freeze();
        if self.is_too_long {
            text.truncate(self.bytes_max + 1);
        }
        self.line(text)
    }

    fn line(&mut self, text: Bytes) -> Option<Line> {
        self.searched = 0;
        self.is_too_long = false;
        self.number += 1;
        (!text.trim_ascii().is_empty()).then_some(Line { number: self.number, text })
    }

    /// There is no line break in what is kept: of a line that is too long, only the beginning is.
    fn pass_over(&mut self) {
        if self.kept.len() > self.bytes_max {
            self.kept.truncate(self.bytes_max + 1);
            self.is_too_long = true;
        }
        self.searched = self.kept.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(cutter: &mut Cutter, pieces: &[&str]) -> Vec<(u64, String)> {
        let mut all = Vec::new();
        let mut keep = |line: Line| all.push((line.number, String::from_utf8(line.text.to_vec()).unwrap()));
        for piece in pieces {
            cutter.push(piece.as_bytes());
            while let Some(line) = cutter.next_line() {
                keep(line);
            }
        }
        cutter.last_line().into_iter().for_each(&mut keep);
        all
    }

    #[test]
    fn lines_are_whole_whatever_the_pieces() {
        let whole = "one\n\n  \ntwo\r\nthree";
        let expected =
            [(1, "one"), (4, "two\r"), (5, "three")].map(|(number, text)| (number, text.to_owned()));
        assert_eq!(lines(&mut Cutter::new(100), &[whole]), expected);
        let letters: Vec<_> = whole.split_inclusive(|_: char| true).collect();
        assert_eq!(lines(&mut Cutter::new(100), &letters), expected);
        assert_eq!(lines(&mut Cutter::new(100), &["", "\n", ""]), []);
    }

    #[test]
    fn a_line_that_is_too_long_is_cut_once_and_not_kept() {
        let mut cutter = Cutter::new(4);
        cutter.push(b"12345");
        for _ in 0..1000 {
            assert_eq!(cutter.next_line(), None);
            cutter.push(b"67890");
        }
        assert!(cutter.kept.len() <= 10, "{} bytes are kept", cutter.kept.len());
        cutter.push(b"\nabcd\nabcdefgh\nx");
        let cut: Vec<_> = std::iter::from_fn(|| cutter.next_line()).map(|line| line.text).collect();
        assert_eq!(cut[..2], ["12345", "abcd"]);
        assert_eq!(
            cut[2].len(),
            8,
            "one that came in one piece needs no cutting: its reader sees its length"
        );
        assert_eq!(cutter.last_line().unwrap().text, "x");
    }
}
