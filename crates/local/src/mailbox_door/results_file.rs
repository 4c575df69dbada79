//! The file of results, `mailbox-N.results.json`: appended to and bounded.
//!
//! A line is torn only if the process is killed while it writes. The next one ends that line, so that those after it
//! are whole, and answers it again.
//!
//! When the next line would make it larger than its limit it is renamed to `….1`, over an older one, and a
//! new one is begun. A reader may take it away at any time by renaming it; then a new one is begun as well.
//! What cannot be written, because the disk is full, is kept and tried again: the door stops reading
//! meanwhile.
//!
//! Not here: what the lines say.

use super::private_file;
use millpond_tasks::RuntimeDir;
use rustix::fs::{AtFlags, OFlags, renameat, statat};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;

/// The file of results of one mailbox.
#[derive(Debug)]
pub(super) struct ResultsFile {
    name: String,
    bytes_max: u64,
    open: Option<Open>,
    /// The last write ended in the middle of a line; its rest belongs into the same file.
    mid_line: bool,
}

#[derive(Debug)]
struct Open {
    file: File,
    identity: (u64, u64),
    size: u64,
}

impl ResultsFile {
    pub(super) fn new(name: String, bytes_max: u64) -> Self {
        Self { name, bytes_max, open: None, mid_line: false }
    }

    /// Appends whole lines and takes what is written out of `text`. After an error, call again with the rest.
    pub(super) fn append(&mut self, directory: &RuntimeDir, text: &mut Vec<u8>) -> io::Result<()> {
        let mut written = 0;
        let result = self.append_lines(directory, text, &mut written);
        text.drain(..written);
        result
    }

    fn append_lines(&mut self, directory: &RuntimeDir, text: &[u8], written: &mut usize) -> io::Result<()> {
        while *written < text.len() {
            let rest = &text[*written..];
            let bytes = if self.mid_line { first_line(rest) } else { self.choose_lines(directory, rest)? };
            if let Some(open) = self.open.as_mut().filter(|_| bytes > 0) {
                let count = open.file.write(&rest[..bytes])?;
                if count == 0 {
                    return Err(io::ErrorKind::WriteZero.into());
                }
                *written += count;
                open.size += count as u64;
                self.mid_line = rest[count - 1] != b'\n';
            }
        }
        Ok(())
    }

    /// How much of `text` goes into the file as it is now. 0 if a new file has to be begun for it.
    fn choose_lines(&mut self, directory: &RuntimeDir, text: &[u8]) -> io::Result<usize> {
        let bytes_max = self.bytes_max;
        let size = self.open_file(directory)?.size;
        match whole_lines_within(text, bytes_max.saturating_sub(size)) {
            // A line that is larger than the limit has a file to itself.
            0 if size == 0 => Ok(first_line(text)),
            0 => {
                renameat(directory.fd(), &self.name, directory.fd(), format!("{}.1", self.name))?;
                self.open = None;
                Ok(0)
            }
            bytes => Ok(bytes),
        }
    }

    /// The file that has the name now.
    fn open_file(&mut self, directory: &RuntimeDir) -> io::Result<&mut Open> {
        let is_there = match statat(directory.fd(), &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => {
                let identity = private_file::identity_of(&found);
                self.open.as_ref().is_some_and(|open| open.identity == identity)
            }
            Err(Errno::NOENT) => false,
            Err(error) => return Err(error.into()),
        };
        if !is_there {
            self.open = Some(Open::new(directory, &self.name)?);
        }
        Ok(self.open.as_mut().expect("it was just opened"))
    }
}

impl Open {
    fn new(directory: &RuntimeDir, name: &str) -> io::Result<Self> {
        let mut file = private_file::open(directory, name, OFlags::RDWR | OFlags::CREATE | OFlags::APPEND)?;
        let mut size = file.metadata()?.len();
        let mut last = [b'\n'];
        if size > 0 {
            file.read_exact_at(&mut last, size - 1)?;
        }
        if last != *b"\n" {
            // A process was killed, or a disk was full, in the middle of a line.
            file.write_all(b"\n")?;
            size += 1;
        }
        Ok(Self { identity: private_file::identity(&file)?, file, size })
    }
}

fn first_line(text: &[u8]) -> usize {
    text.iter().position(|byte| *byte == b'\n').map_or(text.len(), |at| at + 1)
}

/// The length of as many whole lines as fit.
fn whole_lines_within(text: &[u8], room: u64) -> usize {
    let most = usize::try_from(room).unwrap_or(usize::MAX).min(text.len());
    text[..most].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1)
}
