//! What a journal tells of itself: how much came in, how it was grouped, how long the disk took, what lies there.
//!
//! The writer counts once for each batch, under a lock that only readers of the figures share with it.

use std::sync::Arc;
use std::time::Duration;

/// Batches of 1, of 2 to 3, of 4 to 7 records, and so on; the last holds everything larger.
pub(crate) const BATCH_CLASSES: usize = 16;

/// The figures of a journal, at one moment.
#[derive(Clone, Debug, Default)]
pub struct JournalStats {
    /// Records written.
    pub records: u64,
    /// Bytes written, with their frames.
    pub bytes: u64,
    /// Records refused because the disk had no room.
    pub records_refused: u64,
    /// Batches written.
    pub batches: u64,
    /// The largest batch, in records.
    pub batch_records_max: u64,
    /// How many batches had 1 record, 2 to 3, 4 to 7, and so on.
    pub batch_records_classes: [u64; BATCH_CLASSES],
    /// Syncs of the log.
    pub syncs: u64,
    /// How long they took together.
    pub sync_time: Duration,
    /// The longest of them.
    pub sync_time_max: Duration,
    /// Records that wait for the writer now.
    pub waiting_records: usize,
    /// Bytes that wait for the writer now.
    pub waiting_bytes: usize,
    /// Files of the log.
    pub segments: u64,
    /// The number of the one that is written to.
    pub segment_number: u64,
    /// Bytes of records since the last snapshot, with large payloads.
    pub log_bytes: u64,
    /// Bytes of the last snapshot.
    pub snapshot_bytes: u64,
    /// Records in it.
    pub snapshot_records: u64,
    /// How long ago this journal wrote a snapshot, if it did.
    pub snapshot_age: Option<Duration>,
    /// Payloads in files of their own.
    pub spill_files: u64,
    /// Their bytes.
    pub spill_bytes: u64,
    /// Bytes of all files.
    pub disk_bytes: u64,
    /// Why the log takes nothing any more, if so.
    pub poisoned: Option<Arc<str>>,
}

impl JournalStats {
    /// The mean number of records in a batch.
    pub fn batch_records_mean(&self) -> f64 {
        if self.batches == 0 { 0.0 } else { self.records as f64 / self.batches as f64 }
    }

    /// The mean time of a sync.
    pub fn sync_time_mean(&self) -> Duration {
        u32::try_from(self.syncs).ok().and_then(|syncs| self.sync_time.checked_div(syncs)).unwrap_or_default()
    }
}

/// What the writer counts.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) records: u64,
    pub(crate) bytes: u64,
    pub(crate) records_refused: u64,
    pub(crate) batches: u64,
    pub(crate) batch_records_max: u64,
    pub(crate) batch_records_classes: [u64; BATCH_CLASSES],
    pub(crate) syncs: u64,
    pub(crate) sync_time: Duration,
    pub(crate) sync_time_max: Duration,
}

impl Counters {
    pub(crate) fn batch(&mut self, records: u64, bytes: u64) {
        self.records += records;
        self.bytes += bytes;
        self.batches += 1;
        self.batch_records_max = self.batch_records_max.max(records);
        let class = (records.max(1).ilog2() as usize).min(BATCH_CLASSES - 1);
        self.batch_records_classes[class] += 1;
    }

    pub(crate) fn sync(&mut self, time: Duration) {
        self.syncs += 1;
        self.sync_time += time;
        self.sync_time_max = self.sync_time_max.max(time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_classed_by_their_size() {
        let mut counters = Counters::default();
        for records in [1, 1, 2, 3, 4, 1 << 40] {
            counters.batch(records, 10);
        }
        assert_eq!(counters.batch_records_classes[..3], [2, 2, 1]);
        assert_eq!(counters.batch_records_classes[BATCH_CLASSES - 1], 1);
        assert_eq!((counters.batches, counters.batch_records_max, counters.bytes), (6, 1 << 40, 60));
    }

    #[test]
    fn means_of_nothing_are_nothing() {
        let stats = JournalStats::default();
        assert_eq!((stats.batch_records_mean(), stats.sync_time_mean()), (0.0, Duration::ZERO));
        let stats =
            JournalStats { records: 6, batches: 4, syncs: 2, sync_time: Duration::from_secs(3), ..stats };
        assert_eq!((stats.batch_records_mean(), stats.sync_time_mean()), (1.5, Duration::from_millis(1500)));
    }
}
