//! What a store is asked: keep this payload, and come back when it is on the disk.
//!
//! Every store gets a folder on the disk that cargo builds on; a temporary folder may be memory. Stores that commit
//! what one thread brings get a writer that takes everything waiting into one transaction (`group_commit.rs`), which is
//! what their users do who have many submitters.
//!
//! Not here: how many submitters there are and how long they go on (`groups/journal/`).

pub(crate) mod beanstalkd;
pub(crate) mod fjall;
mod group_commit;
pub(crate) mod millpond;
pub(crate) mod raw;
pub(crate) mod redb;
pub(crate) mod sqlite;

use crate::debian;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// The size of a submission, as in the measurements that chose the design.
pub(crate) const PAYLOAD_BYTES: usize = 256;

/// A store that is open.
pub(crate) trait Store: Send + Sync + Sized + 'static {
    /// Opens a fresh store in an empty folder.
    fn start(folder: &Path, submitters: usize) -> Result<Self, String>;
    /// Keeps a payload; comes back once it is on the disk.
    fn submit(&self, submitter: usize, payload: &[u8]) -> Result<(), String>;
    /// Closes the store, opens it again, and counts what is there.
    fn count(self, folder: &Path) -> Result<u64, String>;
}

/// An empty folder on the disk, removed with everything in it.
pub(crate) struct StoreFolder(PathBuf);

impl StoreFolder {
    pub(crate) fn new() -> Result<Self, String> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("bench-journal-{}-{number}", std::process::id());
        let path = debian::target_folder()?.join(name);
        fs::create_dir(&path).map_err(|error| format!("{}: cannot be made: {error}", path.display()))?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for StoreFolder {
    fn drop(&mut self) {
        // What cannot be removed is in nobody's way.
        let _ = fs::remove_dir_all(&self.0);
    }
}
