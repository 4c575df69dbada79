//! A directory for one test, small settings, and the records that a test writes and expects to see again.
//!
//! Settings are small so that a few records fill a batch, a batch half a segment, and rotation happens in every test.

use millpond_journal::{
    AppendError, Disk, Journal, JournalConfig, OpenError, Payload, Receipt, Record, Recovery, SyncMode,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

/// Longer than anything here takes on a busy machine.
pub(crate) const LONG: Duration = Duration::from_secs(60);
pub(crate) const KIND: u8 = 7;

/// A directory that goes with the test.
pub(crate) struct House(PathBuf);

impl House {
    pub(crate) fn new(name: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let turn = NEXT.fetch_add(1, Relaxed);
        let path =
            std::env::temp_dir().join(format!("millpond-journal-{}-{name}-{turn}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn config(&self) -> JournalConfig {
        small(&self.0.join("journal"))
    }

    /// The names of the journal's files, sorted, without the lock.
    pub(crate) fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.0.join("journal")).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.retain(|name| name != "lock");
        names.sort();
        names
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.join("journal").join(name)
    }
}

impl Drop for House {
    fn drop(&mut self) {
        // A test that failed has other worries.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Some ten records to a batch, some thirty to a segment.
pub(crate) fn small(directory: &Path) -> JournalConfig {
    JournalConfig {
        directory: directory.to_owned(),
        sync: SyncMode::Group,
        segment_bytes: 4096 + 2048,
        batch_bytes_max: 1024,
        batch_records_max: 64,
        payload_bytes_max: 4096,
        spill_bytes: 512,
        spill_files_max: 16,
        snapshot_ratio: 1.0,
        snapshot_bytes_min: 4096,
        snapshot_sync_bytes: 1024,
        full_retry: Duration::ZERO,
    }
}

/// What record `number` says; of different lengths, so that records lie at all kinds of offsets.
pub(crate) fn payload(number: u64) -> Vec<u8> {
    let text = format!("record {number} ");
    text.bytes().cycle().take((number * 7 % 41) as usize + text.len()).collect()
}

/// Hands in one record and does not wait.
pub(crate) fn put(journal: &Journal, number: u64) -> Result<Receipt, AppendError> {
    journal.append(&[Record::new(KIND, number, &payload(number))])
}

/// Hands in one record and waits until it is safe.
pub(crate) fn add(journal: &Journal, number: u64) -> Result<(), AppendError> {
    put(journal, number)?.wait_timeout(LONG).expect("an answer in good time")
}

/// Opens and gives the numbers of what is there. Every record must be as it was written.
pub(crate) fn open(config: JournalConfig) -> Result<(Journal, Vec<u64>, Recovery), OpenError> {
    open_on(config, Arc::new(millpond_journal::RealDisk))
}

pub(crate) fn open_on(
    config: JournalConfig,
    disk: Arc<dyn Disk>,
) -> Result<(Journal, Vec<u64>, Recovery), OpenError> {
    let (mut numbers, mut large) = (Vec::new(), Vec::new());
    let (journal, recovery) = Journal::open_on(config, disk, |record| {
        assert_eq!(record.kind, KIND);
        match record.payload {
            Payload::Bytes(bytes) => assert_eq!(bytes, payload(record.key), "record {}", record.key),
            Payload::Spilled(spill) => large.push((record.key, spill)),
        }
        numbers.push(record.key);
    })?;
    for (key, spill) in large {
        assert_eq!(journal.read_spilled(&spill).unwrap(), large_payload(key), "record {key}");
    }
    Ok((journal, numbers, recovery))
}

/// What a record says that is too large for the log.
pub(crate) fn large_payload(number: u64) -> Vec<u8> {
    payload(number).into_iter().cycle().take(700 + number as usize % 100).collect()
}

pub(crate) fn put_large(journal: &Journal, number: u64) -> Result<Receipt, AppendError> {
    journal.append(&[Record::new(KIND, number, &large_payload(number))])
}
