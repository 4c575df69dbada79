//! What the disk itself can do: so many records are written behind each other, synced, and written again.
//!
//! One thread, one file of zeros that is gone through in a circle, no checksums, nobody to wake: less than any store
//! can do with.

use super::PAYLOAD_BYTES;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// As large as a segment of our journal.
const FILE_BYTES: usize = 16 << 20;
/// A payload and what our journal adds to it.
const RECORD_BYTES: usize = PAYLOAD_BYTES + 40;

/// How many records were synced in this time, and how long it really took.
pub(crate) fn run(folder: &Path, per_sync: usize, time: Duration) -> std::io::Result<(u64, Duration)> {
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
        offset += records.len();
        count += per_sync as u64;
    }
    Ok((count, began.elapsed()))
}
