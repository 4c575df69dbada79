//! The one seam to the operating system: everything the journal asks of a disk.
//!
//! Tests put a disk behind it that fails on purpose, or forgets what was not synced. So nothing else in this crate
//! names `std::fs`, and a call here is one system call: a write may be short, a sync may fail, and what to do about it
//! is decided above.

use std::fmt::Debug;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::Path;

/// A file system, as far as a journal needs one.
pub trait Disk: Send + Sync + 'static {
    /// Makes a directory for its owner only. One that is there already is no error.
    fn create_directory(&self, path: &Path) -> io::Result<()>;
    /// Makes a file for its owner only, to read and write. One that is there already is emptied.
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;
    /// Opens a file to read, and also to write if asked.
    fn open(&self, path: &Path, write: bool) -> io::Result<Box<dyn DiskFile>>;
    /// Gives a file another name. What had that name is gone.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Takes a file's name away.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// The files of a directory, in any order.
    fn list(&self, directory: &Path) -> io::Result<Vec<FileFound>>;
    /// Makes sure that names given and taken in this directory are so after a crash.
    fn sync_directory(&self, directory: &Path) -> io::Result<()>;
    /// Locks a file for this opening of it alone, and leaves a note in it, or gives the note of who has it.
    fn lock(&self, path: &Path, note: &str) -> io::Result<Locking>;
}

/// An open file.
pub trait DiskFile: Send + Sync {
    /// Writes at an offset; perhaps not everything.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;
    /// Reads at an offset; perhaps not everything, nothing at the end.
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Makes sure that everything written is there after a crash.
    fn sync_data(&self) -> io::Result<()>;
    /// How long it is.
    fn length(&self) -> io::Result<u64>;
}

/// A file of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileFound {
    /// Without the directory.
    pub name: String,
    /// How long it is.
    pub bytes: u64,
}

/// How an attempt to lock a file ended.
#[derive(Debug)]
pub enum Locking {
    /// It is ours until this is dropped.
    Locked(Box<dyn LockGuard>),
    /// Somebody else has it, and left this note.
    Held(String),
}

/// Holds a lock until it is dropped.
pub trait LockGuard: Debug + Send + Sync {}

impl LockGuard for File {}

/// The disk of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

const DIRECTORY_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;
/// A note is a pid and a line end.
const NOTE_BYTES_MAX: u64 = 64;

impl Disk for RealDisk {
    fn create_directory(&self, path: &Path) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(path)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true).mode(FILE_MODE);
        Ok(Box::new(options.open(path)?))
    }

    fn open(&self, path: &Path, write: bool) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(OpenOptions::new().read(true).write(write).open(path)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<FileFound>> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(directory)? {
            let entry = entry?;
            let bytes = match entry.metadata() {
                Ok(metadata) if metadata.is_file() => metadata.len(),
                // A directory is none of ours, and a file may have gone since it was listed.
                _ => continue,
            };
            // A name that is no text is none of ours either.
            if let Ok(name) = entry.file_name().into_string() {
                found.push(FileFound { name, bytes });
            }
        }
        Ok(found)
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        File::open(directory)?.sync_all()
    }

    fn lock(&self, path: &Path, note: &str) -> io::Result<Locking> {
        let mut options = OpenOptions::new();
        let mut file =
            options.read(true).write(true).create(true).truncate(false).mode(FILE_MODE).open(path)?;
        match rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {
                file.set_len(0)?;
                file.seek(SeekFrom::Start(0))?;
                file.write_all(note.as_bytes())?;
                Ok(Locking::Locked(Box::new(file)))
            }
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let mut note = String::new();
                file.take(NOTE_BYTES_MAX).read_to_string(&mut note)?;
                Ok(Locking::Held(note.trim().to_owned()))
            }
            Err(error) => Err(error.into()),
        }
    }
}

impl DiskFile for File {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        FileExt::write_at(self, bytes, offset)
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        FileExt::read_at(self, bytes, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        File::sync_data(self)
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }
}

/// Writes everything, however short each write is.
pub(crate) fn write_all(file: &dyn DiskFile, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.write_at(bytes, offset) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                bytes = &bytes[written..];
                offset += written as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Reads until the buffer is full or the file ends, and says how much that was.
pub(crate) fn read_up_to(file: &dyn DiskFile, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read_at(&mut bytes[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
