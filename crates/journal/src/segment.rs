//! How a file of the log comes to be: zeros first, synced, and a name only when its first records are on the disk.
//!
//! A sync of a file that grows must also write where its new blocks lie; into zeros that are already there it writes
//! the data alone, in a third of the time. The name comes last: a file called `log-...` always has a sound header, and
//! what is wrong with one is damage and never a crash.
//!
//! The zeros are written by a thread of their own, one file ahead, once the current file is half full.

use crate::disk::{Disk, DiskFile, write_all};
use crate::names;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread::{self, JoinHandle};

/// Written at a time, and synced before the next, so that the log's own syncs wait no longer than for this.
const ZEROS_BYTES: usize = 1 << 20;

/// A file of zeros under the name of a spare.
pub(crate) struct Spare {
    pub(crate) file: Box<dyn DiskFile>,
    pub(crate) bytes: u64,
}

/// Makes spares, one ahead.
pub(crate) struct Preparer {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    bytes: u64,
    underway: Option<(Receiver<io::Result<Spare>>, JoinHandle<()>)>,
}

impl Preparer {
    pub(crate) fn new(disk: Arc<dyn Disk>, directory: &Path, bytes: u64) -> Self {
        Self { disk, path: directory.join(names::SPARE), bytes, underway: None }
    }

    /// Where the spare lies.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Begins one, unless that was done already. It costs nothing to ask again.
    pub(crate) fn begin(&mut self) {
        if self.underway.is_some() {
            return;
        }
        let (disk, path, bytes) = (Arc::clone(&self.disk), self.path.clone(), self.bytes);
        let (sender, receiver): (SyncSender<_>, _) = sync_channel(1);
        let work = move || {
            // Nobody listens any more when the journal is being closed.
            let _ = sender.send(prepare(disk.as_ref(), &path, bytes));
        };
        let builder = thread::Builder::new().name("journal-spare".to_owned());
        // Without a thread the spare is made when it is needed, by whoever needs it.
        self.underway = builder.spawn(work).ok().map(|thread| (receiver, thread));
    }

    /// The spare, waited for if it is under way, made now if it is not. The caller gives it a name or discards it.
    pub(crate) fn take(&mut self) -> io::Result<Spare> {
        let Some((receiver, thread)) = self.underway.take() else {
            return prepare(self.disk.as_ref(), &self.path, self.bytes);
        };
        let spare = receiver.recv().unwrap_or_else(|_| Err(io::Error::other("the spare's thread is gone")));
        // It has nothing left to do.
        let _ = thread.join();
        // It may have failed a while ago, and there may be room now.
        spare.or_else(|_| prepare(self.disk.as_ref(), &self.path, self.bytes))
    }

    /// Forgets a spare that could not be used. Its file is not used again, whatever is wrong with it.
    pub(crate) fn discard(&self) {
        // The next spare empties a file that is still there.
        let _ = self.disk.remove(&self.path);
    }

    /// Waits for the thread, so that nothing writes into the directory afterwards.
    pub(crate) fn end(&mut self) {
        if let Some((receiver, thread)) = self.underway.take() {
            let _ = thread.join();
            if !matches!(receiver.try_recv(), Err(TryRecvError::Empty)) {
                self.discard();
            }
        }
    }
}

/// The first of a log, made by whoever opens it.
pub(crate) fn make(disk: &dyn Disk, directory: &Path, bytes: u64) -> io::Result<Spare> {
    prepare(disk, &directory.join(names::SPARE), bytes)
}

fn prepare(disk: &dyn Disk, path: &Path, bytes: u64) -> io::Result<Spare> {
    let made = zeros(disk, path, bytes);
    if made.is_err() {
        // Half a spare takes room that somebody else may need.
        let _ = disk.remove(path);
    }
    made
}

fn zeros(disk: &dyn Disk, path: &Path, bytes: u64) -> io::Result<Spare> {
    let file = disk.create(path)?;
    let zeros = vec![0; ZEROS_BYTES.min(usize::try_from(bytes).unwrap_or(ZEROS_BYTES))];
    let mut offset = 0;
    while offset < bytes {
        let piece = zeros.len().min(usize::try_from(bytes - offset).unwrap_or(usize::MAX));
        write_all(file.as_ref(), &zeros[..piece], offset)?;
        file.sync_data()?;
        offset += piece as u64;
    }
    Ok(Spare { file, bytes })
}
