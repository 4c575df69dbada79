//! Puts a whole file in place: whoever reads finds the old file or the new one, never a part of either.
//!
//! The data goes into a file beside the target, under a name that nobody else has, and takes the target's
//! name in one step once it is on the disk. If anything fails before that, the file beside is taken away
//! again and the target is as it was.
//!
//! Not here: which directory and which name (`beneath.rs`).

use super::beneath::Place;
use crate::error::{ErrorCode, TaskFailure};
use rustix::fs::{
    AtFlags, Mode, OFlags, RenameFlags, fchmod, linkat, openat, renameat, renameat_with, unlinkat,
};
use rustix::io::Errno;
use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many names are tried for the file beside. Somebody else may have left files behind under some.
const NAMES_TRIED_MAX: u32 = 64;

/// Makes a new file with this data; refused if there is one.
pub(super) fn create(place: &Place, data: &[u8]) -> Result<(), TaskFailure> {
    if place.look()?.is_some() {
        return Err(exists(place));
    }
    let beside = Beside::write(place, data, None)?;
    beside.take_free_name().map_err(|errno| match errno {
        Errno::EXIST => exists(place),
        errno => place.failed(errno),
    })
}

/// Puts a file with this data in place of what is there, if anything is.
pub(super) fn replace(place: &Place, data: &[u8]) -> Result<(), TaskFailure> {
    let permissions = place.look()?.map(|stat| Mode::from_raw_mode(stat.st_mode & 0o777));
    Beside::write(place, data, permissions)?.take_name()
}

fn exists(place: &Place) -> TaskFailure {
    let message = format!(
        "args.path: {} exists; \"mode\": \"replace\" puts the data in its place, \"append\" adds to it",
        place.shown()
    );
    TaskFailure::new(ErrorCode::HandlerError, message)
}

/// The file beside the target. It goes when this is dropped, unless it has taken another name.
struct Beside<'a> {
    place: &'a Place,
    name: PathBuf,
    is_gone: bool,
}

impl<'a> Beside<'a> {
    /// Writes the data to the disk under a name of its own.
    fn write(place: &'a Place, data: &[u8], permissions: Option<Mode>) -> Result<Self, TaskFailure> {
        let (mut file, beside) = Self::make(place).map_err(|errno| place.failed(errno))?;
        file.write_all(data).map_err(|error| place.failed(error))?;
        if let Some(permissions) = permissions {
            fchmod(&file, permissions).map_err(|errno| place.failed(errno))?;
        }
        // Some file systems would otherwise bring the name to the disk before the data.
        file.sync_data().map_err(|error| place.failed(error))?;
        Ok(beside)
    }

    fn make(place: &'a Place) -> Result<(File, Self), Errno> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        for _ in 0..NAMES_TRIED_MAX {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let name = PathBuf::from(format!(".millpond-{}-{number}.tmp", process::id()));
            match openat(&place.directory, &name, flags, Mode::from_raw_mode(0o666)) {
                Ok(file) => return Ok((file.into(), Self { place, name, is_gone: false })),
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno),
            }
        }
        Err(Errno::EXIST)
    }

    /// Takes the target's name, whoever has it.
    fn take_name(mut self) -> Result<(), TaskFailure> {
        let (place, directory) = (self.place, &self.place.directory);
        renameat(directory, &self.name, directory, &place.name).map_err(|errno| match errno {
            // Something else has come there since it was looked at.
            Errno::ISDIR => place.look().err().unwrap_or_else(|| place.failed(errno)),
            errno => place.failed(errno),
        })?;
        self.is_gone = true;
        Ok(())
    }

    /// Takes the target's name if nobody has it, in one step.
    fn take_free_name(mut self) -> Result<(), Errno> {
        let (directory, target) = (&self.place.directory, &self.place.name);
        match renameat_with(directory, &self.name, directory, target, RenameFlags::NOREPLACE) {
            // Not every file system knows how.
            Err(Errno::INVAL | Errno::NOSYS) => self.share_free_name(),
            answer => {
                self.is_gone = answer.is_ok();
                answer
            }
        }
    }

    /// The same by giving the file a second name, which is refused just as well if it is taken.
    fn share_free_name(self) -> Result<(), Errno> {
        let (directory, target) = (&self.place.directory, &self.place.name);
        linkat(directory, &self.name, directory, target, AtFlags::empty())
    }
}

impl Drop for Beside<'_> {
    fn drop(&mut self) {
        if !self.is_gone {
            // If even this fails the file stays; its name says whose it is.
            let _ = unlinkat(&self.place.directory, &self.name, AtFlags::empty());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::attacks::Folder;
    use super::*;

    #[test]
    fn a_file_beside_goes_if_it_takes_no_other_name() {
        let folder = Folder::new();
        let place = folder.place("a");
        let beside = Beside::write(&place, b"new", None).unwrap();
        assert_eq!(folder.names().len(), 1, "it is there");
        drop(beside);
        assert_eq!(folder.names(), [""; 0], "and gone");
    }

    #[test]
    fn a_free_name_is_taken_and_one_that_is_not_free_is_left_alone() {
        type Take = fn(Beside<'_>) -> Result<(), Errno>;
        let ways: [Take; 2] = [|beside| beside.take_free_name(), |beside| beside.share_free_name()];
        for take in ways {
            let folder = Folder::new();
            let place = folder.place("a");
            take(Beside::write(&place, b"first", None).unwrap()).unwrap();
            let second = take(Beside::write(&place, b"second", None).unwrap());
            assert_eq!(second, Err(Errno::EXIST));
            assert_eq!((folder.names(), folder.text("a")), (vec!["a".to_owned()], "first".to_owned()));
        }
    }

    #[test]
    fn what_cannot_be_replaced_leaves_nothing_beside() {
        let folder = Folder::new();
        let place = folder.place("a");
        let beside = Beside::write(&place, b"new", None).unwrap();
        std::fs::create_dir(folder.at("a")).unwrap();
        assert_eq!(beside.take_name().unwrap_err().code, ErrorCode::NotAllowed);
        assert_eq!(folder.names(), ["a"]);
    }
}
