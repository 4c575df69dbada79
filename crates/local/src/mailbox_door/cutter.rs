//! Cuts a file that others append to into lines, from a given place on.
//!
//! It follows `millpond_tasks::Lines`: a line counts when its line break has come, and one that is too long
//! is not stored beyond its first bytes. But it begins in the middle of a file and has no end. Every read
//! also reads the last bytes of the one before: if they are not there, or are others, the file was cut short
//! or written over, and what follows them is not what follows the lines that were read. One call reads both,
//! so nobody can get in between.
//!
//! Not here: what a line asks for, and which lines are to be run.

use super::bookmark::TAIL_BYTES;
use super::window::Place;
use rustix::io::{Errno, preadv};
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::mem;

/// How much is read at a time.
const READ_BYTES: usize = 64 << 10;

/// Reads one file.
#[derive(Debug)]
pub(super) struct Cutter {
    line_bytes_max: usize,
    /// What was read and not yet cut off.
    buffer: Vec<u8>,
    /// Where in it the next line begins.
    start: usize,
    /// Where in it to look for the next line break.
    searched: usize,
    /// The beginning of a line that is too long and whose end has not come.
    long: Option<Vec<u8>>,
    /// Where in the file the next line begins.
    place: Place,
    /// How far it was read.
    read_to: u64,
    /// The last bytes before that.
    tail: Vec<u8>,
}

/// One line that is not blank.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Cut {
    /// Where it begins.
    pub(super) place: Place,
    /// Its bytes without the line break; one more than the limit if it is too long.
    pub(super) text: Vec<u8>,
}

/// What comes next in a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A line.
    Line(Cut),
    /// Nothing for now.
    End,
    /// The file is not the one it was.
    Changed,
}

impl Cutter {
    /// Begins at `place`. `tail` is what stands before it, at most `TAIL_BYTES`.
    pub(super) fn new(place: Place, tail: Vec<u8>, line_bytes_max: usize) -> Self {
        Self {
            line_bytes_max,
            buffer: Vec::new(),
            start: 0,
            searched: 0,
            long: None,
            place,
            read_to: place.offset,
            tail,
        }
    }

    /// The next line, if the whole of it is there.
    pub(super) fn next(&mut self, file: &File) -> io::Result<Step> {
        loop {
            let Some(at) = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n') else {
                self.searched = self.buffer.len();
                self.keep_within_limit();
                match self.fill(file)? {
                    Some(0) => return Ok(Step::End),
                    Some(_) => continue,
                    None => return Ok(Step::Changed),
                }
            };
            let end = self.searched + at;
            if let Some(cut) = self.cut(end, end + 1) {
                return Ok(Step::Line(cut));
            }
        }
    }

    /// The rest of a file that is known to have ended without a line break.
    pub(super) fn finish(&mut self) -> Option<Cut> {
        let end = self.buffer.len();
        self.cut(end, end)
    }

    /// Where the next line begins.
    pub(super) fn place(&self) -> Place {
        self.place
    }

    /// How far the file was read.
    pub(super) fn read_to(&self) -> u64 {
        self.read_to
    }

    /// How much of a line has come whose end has not.
    pub(super) fn partial_bytes(&self) -> u64 {
        self.read_to - self.place.offset
    }

    /// Whether what was read last still stands where it was read.
    pub(super) fn is_same(&self, file: &File) -> io::Result<bool> {
        Ok(self.read_after_tail(file, &mut [])?.is_some())
    }

    /// Takes the line that ends at `end` out of the buffer; none if it is blank.
    fn cut(&mut self, end: usize, next: usize) -> Option<Cut> {
        let mut text = self.long.take().unwrap_or_default();
        let room = (self.line_bytes_max + 1).saturating_sub(text.len());
        let part = &self.buffer[self.start..end];
        text.extend_from_slice(&part[..part.len().min(room)]);
        let place = self.place;
        let left = (self.buffer.len() - next) as u64;
        (self.start, self.searched) = (next, next);
        self.place = Place { offset: self.read_to - left, line: place.line + 1 };
        let blank = text.iter().all(|byte| b" \t\r\n".contains(byte));
        (!blank).then_some(Cut { place, text })
    }

    /// Forgets the rest of a line that is too long.
    fn keep_within_limit(&mut self) {
        let part = &self.buffer[self.start..];
        if self.long.is_none() && part.len() <= self.line_bytes_max {
            return;
        }
        let long = self.long.get_or_insert_default();
        let room = (self.line_bytes_max + 1).saturating_sub(long.len());
        long.extend_from_slice(&part[..part.len().min(room)]);
        self.buffer.clear();
        (self.start, self.searched) = (0, 0);
    }

    /// Reads on, and says how much; 0 at the end of the file, none if it has changed.
    fn fill(&mut self, file: &File) -> io::Result<Option<usize>> {
        // Whole lines have been cut off, so what moves is one part of a line at most.
        self.buffer.drain(..mem::take(&mut self.start));
        let old = self.buffer.len();
        self.searched = old;
        let mut buffer = mem::take(&mut self.buffer);
        buffer.resize(old + READ_BYTES, 0);
        let read = self.read_after_tail(file, &mut buffer[old..]);
        let count = if let Ok(Some(count)) = read { count } else { 0 };
        buffer.truncate(old + count);
        self.buffer = buffer;
        self.read_to += count as u64;
        let new = &self.buffer[old..];
        self.tail.extend_from_slice(&new[new.len().saturating_sub(TAIL_BYTES)..]);
        self.tail.drain(..self.tail.len().saturating_sub(TAIL_BYTES));
        read
    }

    /// Reads what follows the last bytes that were read, if these are there.
    fn read_after_tail(&self, file: &File, into: &mut [u8]) -> io::Result<Option<usize>> {
        let mut tail = [0; TAIL_BYTES];
        let tail = &mut tail[..self.tail.len()];
        let from = self.read_to - tail.len() as u64;
        let count = loop {
            match preadv(file, &mut [IoSliceMut::new(tail), IoSliceMut::new(into)], from) {
                Err(Errno::INTR) => (),
                read => break read?,
            }
        };
        let is_same = count >= tail.len() && *tail == *self.tail;
        Ok(is_same.then(|| count - tail.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    /// A file that has no name.
    fn file() -> File {
        let path = std::env::temp_dir().join(format!(
            "millpond-cutter-{}-{:?}",
            std::process::id(),
            std::thread::current().id()
        ));
        let file = File::options().read(true).append(true).create_new(true).open(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        file
    }

    fn texts(cutter: &mut Cutter, file: &File) -> Vec<(u64, u64, String)> {
        let mut found = Vec::new();
        while let Step::Line(Cut { place, text }) = cutter.next(file).unwrap() {
            found.push((place.line, place.offset, String::from_utf8(text).unwrap()));
        }
        found
    }

    #[test]
    fn lines_come_when_their_end_has_come() {
        let mut file = file();
        let mut cutter = Cutter::new(Place::START, Vec::new(), 100);
        file.write_all(b"one\n\n \r\ntw").unwrap();
        assert_eq!(texts(&mut cutter, &file), [(1, 0, "one".into())]);
        assert_eq!(cutter.partial_bytes(), 2);
        file.write_all(b"o\nthree").unwrap();
        assert_eq!(texts(&mut cutter, &file), [(4, 8, "two".into())]);
        assert_eq!(cutter.place(), Place { offset: 12, line: 5 });
        let rest = cutter.finish().unwrap();
        assert_eq!((rest.place.line, rest.text), (5, b"three".to_vec()));
        assert_eq!((cutter.finish(), cutter.place().offset, cutter.read_to()), (None, 17, 17));
    }

    #[test]
    fn a_cutter_that_begins_at_a_place_goes_on_as_the_first_would_have() {
        let mut file = file();
        let mut cutter = Cutter::new(Place::START, Vec::new(), 100);
        file.write_all(b"a\nb\nc\nd\n").unwrap();
        cutter.next(&file).unwrap();
        cutter.next(&file).unwrap();
        let mut later = Cutter::new(cutter.place(), b"a\nb\n".to_vec(), 100);
        assert!(later.is_same(&file).unwrap());
        assert_eq!(texts(&mut later, &file), texts(&mut cutter, &file));
    }

    #[test]
    fn a_line_that_is_too_long_is_kept_to_one_byte_more_than_the_limit() {
        let mut file = file();
        let mut cutter = Cutter::new(Place::START, Vec::new(), 10);
        for length in [10, 11, 300_000] {
            file.write_all(&vec![b'x'; length]).unwrap();
            file.write_all(b"\n").unwrap();
        }
        file.write_all(b"next\n").unwrap();
        let found: Vec<_> = texts(&mut cutter, &file).into_iter().map(|(.., text)| text.len()).collect();
        assert_eq!(found, [10, 11, 11, 4]);
        file.write_all(&vec![b'y'; 300_000]).unwrap();
        assert_eq!(cutter.next(&file).unwrap(), Step::End);
        assert!(cutter.buffer.capacity() <= 2 * READ_BYTES, "{}", cutter.buffer.capacity());
        assert_eq!(cutter.finish().unwrap().text.len(), 11);
    }

    #[test]
    fn a_file_that_was_cut_short_or_written_over_is_noticed_before_it_is_read() {
        let mut file = file();
        let mut cutter = Cutter::new(Place::START, Vec::new(), 100);
        file.write_all(b"first\nsecond\n").unwrap();
        texts(&mut cutter, &file);
        assert!(cutter.is_same(&file).unwrap());
        assert_eq!(cutter.next(&file).unwrap(), Step::End);
        file.set_len(3).unwrap();
        assert!(!cutter.is_same(&file).unwrap());
        assert_eq!(cutter.next(&file).unwrap(), Step::Changed);
        file.write_all(b"something else that is longer\n").unwrap();
        assert!(!cutter.is_same(&file).unwrap());
        assert_eq!(cutter.next(&file).unwrap(), Step::Changed);
        assert_eq!(cutter.place(), Place { offset: 13, line: 3 });
    }
}
