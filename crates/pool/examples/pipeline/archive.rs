//! An archive on its way: `NAME.gz.part` while it is written and checked, `NAME.gz` when it is whole.
//!
//! Every block is a gzip member of its own, so an archive cut off between two of them is one that `gzip -t`
//! finds no fault with. Only the name can tell that it is not whole. What does not become whole is removed,
//! whatever the reason; only a program that is killed leaves its `.part` files behind.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// An archive that is being written.
pub(crate) struct Archive {
    file: File,
    part: Part,
}

/// An archive with nothing more to come. Removed when it is dropped, unless it was given its name.
pub(crate) struct Part {
    path: PathBuf,
    path_when_whole: PathBuf,
}

impl Archive {
    pub(crate) fn create(folder: &Path, name: &OsStr) -> Result<Self, String> {
        let ending_with = |ending: &str| {
            let mut name = OsString::from(name);
            name.push(ending);
            folder.join(name)
        };
        let part = Part { path: ending_with(".gz.part"), path_when_whole: ending_with(".gz") };
        let file = File::create(&part.path).map_err(|error| told(&part.path, error))?;
        Ok(Self { file, part })
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.file.write_all(bytes).map_err(|error| told(&self.part.path, error))
    }

    /// Closes the file: of those that wait to be checked there may be more than a process may have open.
    pub(crate) fn close(self) -> Part {
        self.part
    }
}

impl Part {
    /// Gives the archive its name, since it is whole.
    pub(crate) fn publish(self) -> Result<(), String> {
        fs::rename(&self.path, &self.path_when_whole).map_err(|error| told(&self.path_when_whole, error))
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // Most of the time it has its name already; and what cannot be removed still says that it is a part.
        let _ = fs::remove_file(&self.path);
    }
}

fn told(path: &Path, error: io::Error) -> String {
    format!("{}: {error}", path.display())
}
