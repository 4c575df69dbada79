//! How far the files of one mailbox are done with, kept in `mailbox-N.offset` over a restart.
//!
//! ```json
//! {"device":64768,"inode":1234,"offset":5120,"line":41,"ended":[[43,47]],"tail":"9e3779b97f4a7c15"}
//! ```
//!
//! One line for each file, the oldest first: after a rotation two files may have lines under way. `offset`
//! and `line` are where the first line begins that has not ended; `ended` are lines behind it that have.
//! `tail` stands for the bytes before `offset`: a number of an inode is used again for a new file, and then
//! the bytes differ. The file is written under another name and renamed, so it is always whole.
//!
//! Not here: what is to be done about a file that is no longer there (`mailbox_file.rs`).

use super::private_file;
use super::window::Place;
use millpond_tasks::RuntimeDir;
use rustix::fs::{OFlags, renameat};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;

/// How many bytes before a place are looked at to know it again.
pub(super) const TAIL_BYTES: usize = 64;

/// The largest file of bookmarks that is read: every other line of a large window, in sixteen files.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// How far one file is done with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Bookmark {
    /// Which file.
    pub(super) device: u64,
    pub(super) inode: u64,
    /// Where the first line begins that has not ended.
    pub(super) offset: u64,
    pub(super) line: u64,
    /// First and last numbers of lines behind it that have ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) ended: Vec<(u64, u64)>,
    /// The bytes before `offset`, summed up.
    tail: String,
}

impl Bookmark {
    /// A bookmark in a file, with its `tail` read from there.
    pub(super) fn new(
        (device, inode): (u64, u64),
        place: Place,
        ended: Vec<(u64, u64)>,
        file: &File,
    ) -> io::Result<Self> {
        let tail = sum(&tail_of(file, place.offset)?);
        Ok(Self { device, inode, offset: place.offset, line: place.line, ended, tail })
    }

    /// Where it is.
    pub(super) fn place(&self) -> Place {
        Place { offset: self.offset, line: self.line }
    }

    /// The bytes before it, if they are the ones it was made with.
    pub(super) fn find_in(&self, file: &File) -> io::Result<Option<Vec<u8>>> {
        if file.metadata()?.len() < self.offset {
            return Ok(None);
        }
        match tail_of(file, self.offset) {
            Ok(tail) => Ok((sum(&tail) == self.tail).then_some(tail)),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// The bytes before `offset`.
fn tail_of(file: &File, offset: u64) -> io::Result<Vec<u8>> {
    let length = offset.min(TAIL_BYTES as u64);
    let mut tail = vec![0; length as usize];
    file.read_exact_at(&mut tail, offset - length)?;
    Ok(tail)
}

/// FNV-1a: the same in every release, which the standard library's hashes are not.
fn sum(bytes: &[u8]) -> String {
    let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3);
    format!("{:016x}", bytes.iter().fold(0xCBF2_9CE4_8422_2325, mix))
}

/// The bookmarks that an earlier process left; none if it left none.
pub(super) fn read(directory: &RuntimeDir, name: &str) -> io::Result<Vec<Bookmark>> {
    let file = match private_file::open(directory, name, OFlags::RDONLY) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        file => file?,
    };
    let mut text = String::new();
    file.take(FILE_BYTES_MAX).read_to_string(&mut text)?;
    let parse = |(index, line): (usize, &str)| {
        parse(line).map_err(|got| {
            let path = directory.path().join(name);
            let message = format!(
                "{}:{}: expected a bookmark, got {got}; mend it, or remove it to run every line again",
                path.display(),
                index + 1
            );
            io::Error::new(io::ErrorKind::InvalidData, message)
        })
    };
    text.lines().enumerate().map(parse).collect()
}

fn parse(line: &str) -> Result<Bookmark, String> {
    let bookmark: Bookmark = serde_json::from_str(line).map_err(|error| error.to_string())?;
    // Files cannot have more bytes, and so not more lines.
    let possible = |number: u64| i64::try_from(number).is_ok();
    if bookmark.line == 0 || !possible(bookmark.line) || !possible(bookmark.offset) {
        return Err(format!("line {} at byte {}", bookmark.line, bookmark.offset));
    }
    Ok(bookmark)
}

/// Replaces the bookmarks as a whole.
pub(super) fn write(directory: &RuntimeDir, name: &str, bookmarks: &[Bookmark]) -> io::Result<()> {
    let new = format!("{name}.new");
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC;
    let mut file = private_file::open(directory, &new, flags)?;
    let mut text = Vec::new();
    for bookmark in bookmarks {
        serde_json::to_writer(&mut text, bookmark)?;
        text.push(b'\n');
    }
    file.write_all(&text)?;
    drop(file);
    renameat(directory.fd(), &new, directory.fd(), name)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bookmark_is_read_as_it_was_written_and_nonsense_is_not() {
        let text = r#"{"device":1,"inode":2,"offset":30,"line":4,"ended":[[6,7]],"tail":"cbf29ce484222325"}"#;
        let bookmark = parse(text).unwrap();
        assert_eq!(serde_json::to_string(&bookmark).unwrap(), text);
        assert_eq!((bookmark.place(), bookmark.ended), (Place { offset: 30, line: 4 }, vec![(6, 7)]));
        for (from, to) in [("4,", "0,"), ("30", "18446744073709551615"), ("30", "-1"), ("offset", "place")] {
            parse(&text.replacen(from, to, 1)).unwrap_err();
        }
    }

    #[test]
    fn the_sum_is_that_of_fnv() {
        assert_eq!(sum(b""), "cbf29ce484222325");
        assert_eq!(sum(b"foobar"), "85944171f73967e8");
    }
}
