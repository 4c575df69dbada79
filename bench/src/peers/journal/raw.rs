//! What the disk itself can do: so many records are written behind each other, synced, and written again.
//!
//! One thread, no checksums, nobody to wake: less than any store can do with. `run` goes in a circle through one file
//! of zeros, so that a sync writes data only; `append` lets the file grow, so that a sync also writes where it lies.
//! `with_threads` is `run` with somebody to wake: threads that sleep until the sync is over, as submitters do.

use super::PAYLOAD_BYTES;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// As large as a segment of our journal.
const FILE_BYTES: usize = 16 << 20;
/// A payload and what our journal adds to it.
const RECORD_BYTES: usize = PAYLOAD_BYTES + 40;

/// Writes so many records a sync for this time: how many were synced, and how long it really took.
pub(crate) type Run = fn(&Path, usize, Duration) -> Result<(u64, Duration), String>;

/// Over the same file of zeros, again and again.
pub(crate) fn run(folder: &Path, per_sync: usize, time: Duration) -> Result<(u64, Duration), String> {
    in_place(folder, per_sync, time, || ()).map_err(|error| error.to_string())
}

/// Behind the end of a file that grows.
pub(crate) fn append(folder: &Path, per_sync: usize, time: Duration) -> Result<(u64, Duration), String> {
    growing(folder, per_sync, time).map_err(|error| error.to_string())
}

/// As `run`, and every sync wakes as many threads as it has records; the next one waits until all of them came again.
pub(crate) fn with_threads(
    folder: &Path,
    per_sync: usize,
    time: Duration,
) -> Result<(u64, Duration), String> {
    let crowd = Crowd::default();
    thread::scope(|scope| {
        for _ in 0..per_sync {
            scope.spawn(|| crowd.come_again());
        }
        crowd.wait_for(per_sync);
        let measured = in_place(folder, per_sync, time, || {
            crowd.wake();
            crowd.wait_for(per_sync);
        });
        crowd.dismiss();
        measured.map_err(|error| error.to_string())
    })
}

fn in_place(
    folder: &Path,
    per_sync: usize,
    time: Duration,
    synced: impl Fn(),
) -> io::Result<(u64, Duration)> {
    let file = File::options().create_new(true).read(true).write(true).open(folder.join("raw"))?;
    file.write_all_at(&vec![0; FILE_BYTES], 0)?;
    file.sync_all()?;
    let records = vec![7; RECORD_BYTES * per_sync];
    let (mut offset, mut count) = (0, 0);
    let began = Instant::now();
    while began.elapsed() < time {
        if offset + records.len() > FILE_BYTES {
            offset = 0;
        }
        file.write_all_at(&records, offset as u64)?;
        file.sync_data()?;
        synced();
        offset += records.len();
        count += per_sync as u64;
    }
    Ok((count, began.elapsed()))
}

fn growing(folder: &Path, per_sync: usize, time: Duration) -> io::Result<(u64, Duration)> {
    let mut file = File::options().create_new(true).append(true).open(folder.join("raw"))?;
    let records = vec![7; RECORD_BYTES * per_sync];
    let mut count = 0;
    let began = Instant::now();
    while began.elapsed() < time {
        file.write_all(&records)?;
        file.sync_data()?;
        count += per_sync as u64;
    }
    Ok((count, began.elapsed()))
}

/// Threads that sleep until a sync is over, and tell when they are back.
#[derive(Default)]
struct Crowd {
    state: Mutex<CrowdState>,
    synced: Condvar,
    back: Condvar,
}

#[derive(Default)]
struct CrowdState {
    syncs: u64,
    waiting: usize,
    /// The writer waits for so many.
    wanted: usize,
    is_over: bool,
}

impl Crowd {
    fn lock(&self) -> MutexGuard<'_, CrowdState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn come_again(&self) {
        let mut state = self.lock();
        while !state.is_over {
            state.waiting += 1;
            if state.waiting == state.wanted {
                self.back.notify_one();
            }
            let seen = state.syncs;
            while state.syncs == seen && !state.is_over {
                state = self.synced.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            drop(state);
            // Where a submitter makes its next record.
            state = self.lock();
        }
    }

    fn wait_for(&self, threads: usize) {
        let mut state = self.lock();
        state.wanted = threads;
        while state.waiting < threads {
            state = self.back.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn wake(&self) {
        let mut state = self.lock();
        state.syncs += 1;
        state.waiting = 0;
        drop(state);
        self.synced.notify_all();
    }

    fn dismiss(&self) {
        self.lock().is_over = true;
        self.synced.notify_all();
    }
}
