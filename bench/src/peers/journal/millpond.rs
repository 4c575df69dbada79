//! Our journal, with its defaults: each submitter appends a record and waits for its receipt.
//!
//! `journal` is the same for doors that have no thread to spare for each record: the acknowledgement is a
//! call, and a submitter waits for many at once.

use super::Store;
use millpond_journal::{Journal, JournalConfig, Record};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) struct Millpond {
    journal: Journal,
    next: AtomicU64,
}

impl Millpond {
    pub(crate) fn journal(&self) -> &Journal {
        &self.journal
    }
}

pub(crate) fn config(folder: &Path) -> JournalConfig {
    JournalConfig { directory: folder.join("journal"), ..JournalConfig::default() }
}

impl Store for Millpond {
    fn start(folder: &Path, _submitters: usize) -> Result<Self, String> {
        let (journal, _) = Journal::open(config(folder), |_| ()).map_err(|error| error.to_string())?;
        Ok(Self { journal, next: AtomicU64::new(0) })
    }

    fn submit(&self, _submitter: usize, payload: &[u8]) -> Result<(), String> {
        let key = self.next.fetch_add(1, Ordering::Relaxed);
        let receipt = self.journal.append(&[Record::new(1, key, payload)]);
        receipt.and_then(millpond_journal::Receipt::wait).map_err(|error| error.to_string())
    }

    fn count(self, folder: &Path) -> Result<u64, String> {
        self.journal.close().map_err(|error| error.to_string())?;
        let mut count = 0;
        Journal::open(config(folder), |_| count += 1).map_err(|error| error.to_string())?;
        Ok(count)
    }
}
