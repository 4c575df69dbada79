//! Everything has a limit, and whoever meets one is told which.
//!
//! A batch that is full makes submitters wait, or refuses them if they will not.

use crate::house::{House, KIND, add, open, open_on, payload, put, small};
use crate::sim_disk::SimDisk;
use millpond_journal::{AppendError, Disk, DiskFile, FileFound, Journal, JournalConfig, Locking, Record};
use std::io;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

#[test]
fn what_is_too_large_is_refused_with_the_setting_that_says_so() {
    let house = House::new("large");
    let (journal, _, _) = open(house.config()).unwrap();
    let message = |records: &[Record<'_>]| {
        let error = journal.append(records).unwrap_err();
        assert_eq!(error.code(), "journal-too-large");
        error.to_string()
    };
    let huge = vec![0; 4097];
    let text = message(&[Record::new(KIND, 1, &huge)]);
    assert_eq!(text, "bytes of a payload: 4097, 4096 is the most; send less or raise payload_bytes_max");
    let crowd = vec![Record::new(KIND, 1, b""); 65];
    assert_eq!(
        message(&crowd),
        "records of one append: 65, 64 is the most; send less or raise batch_records_max"
    );
    let wide = vec![0; 500];
    let text = message(&[Record::new(KIND, 1, &wide); 3]);
    assert!(text.starts_with("bytes of one append: 1632, 1024 is the most"), "{text}");
    add(&journal, 1).unwrap();
    drop(journal);
    assert_eq!(open(house.config()).unwrap().1, [1]);
}

#[test]
fn a_setting_that_cannot_be_meant_stops_the_start() {
    let house = House::new("settings");
    let config = JournalConfig { segment_bytes: 100, ..house.config() };
    let error = open(config).unwrap_err();
    assert_eq!(error.code(), "journal-config");
    assert!(!house.path().join("journal").exists(), "nothing was made");
}

/// A disk whose syncs wait for the test.
#[derive(Clone, Default)]
struct SlowDisk {
    disk: SimDisk,
    gate: Arc<(Mutex<bool>, Condvar)>,
}

struct SlowFile(Box<dyn DiskFile>, Arc<(Mutex<bool>, Condvar)>);

impl SlowDisk {
    /// Until the returned value is dropped no sync ends.
    fn hold(&self) -> Held<'_> {
        self.set_held(true);
        Held(self)
    }

    fn set_held(&self, held: bool) {
        *self.gate.0.lock().unwrap() = held;
        self.gate.1.notify_all();
    }

    fn slow(&self, file: Box<dyn DiskFile>) -> Box<dyn DiskFile> {
        Box::new(SlowFile(file, Arc::clone(&self.gate)))
    }
}

/// Lets go also when a test fails: the journal is dropped then, which waits for its syncs.
struct Held<'a>(&'a SlowDisk);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.set_held(false);
    }
}

impl Disk for SlowDisk {
    fn create_directory(&self, path: &Path) -> io::Result<()> {
        self.disk.create_directory(path)
    }
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.disk.create(path).map(|file| self.slow(file))
    }
    fn open(&self, path: &Path, write: bool) -> io::Result<Box<dyn DiskFile>> {
        self.disk.open(path, write).map(|file| self.slow(file))
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.remove(path)
    }
    fn list(&self, directory: &Path) -> io::Result<Vec<FileFound>> {
        self.disk.list(directory)
    }
    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        self.disk.sync_directory(directory)
    }
    fn lock(&self, path: &Path, note: &str) -> io::Result<Locking> {
        self.disk.lock(path, note)
    }
}

impl DiskFile for SlowFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.0.write_at(bytes, offset)
    }
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(bytes, offset)
    }
    fn sync_data(&self) -> io::Result<()> {
        let held = self.1.0.lock().unwrap();
        drop(self.1.1.wait_while(held, |held| *held).unwrap());
        self.0.sync_data()
    }
    fn length(&self) -> io::Result<u64> {
        self.0.length()
    }
}

fn slow_journal() -> (SlowDisk, Arc<Journal>) {
    let disk = SlowDisk::default();
    // In one segment, so that every call to the disk is about the records.
    let config = JournalConfig { segment_bytes: 1 << 20, ..small(Path::new("/slow")) };
    let (journal, _, _) = open_on(config, Arc::new(disk.clone())).unwrap();
    (disk, Arc::new(journal))
}

#[test]
fn a_full_batch_refuses_whoever_will_not_wait_and_holds_whoever_will() {
    let (disk, journal) = slow_journal();
    let held = disk.hold();
    // The writer is at its sync with this one, so that it takes none of those that follow.
    let mut accepted = vec![put(&journal, 0).unwrap()];
    while journal.stats().waiting_records > 0 {
        thread::yield_now();
    }
    let full = loop {
        let number = accepted.len() as u64;
        match journal.try_append(&[Record::new(KIND, number, &payload(number))]) {
            Ok(receipt) => accepted.push(receipt),
            Err(error) => break error,
        }
        assert!(accepted.len() < 200, "the batch was never full");
    };
    let AppendError::Full { bytes, records } = full else { panic!("{full}") };
    assert!(bytes <= 1024 && records <= 64 && records > 5, "{bytes} bytes, {records} records");
    let stats = journal.stats();
    assert_eq!((stats.waiting_bytes, stats.waiting_records), (bytes, records));
    let next = accepted.len() as u64;
    let waiting = thread::spawn({
        let journal = Arc::clone(&journal);
        move || put(&journal, next).unwrap().wait()
    });
    drop(held);
    accepted.into_iter().for_each(|receipt| receipt.wait().unwrap());
    waiting.join().unwrap().unwrap();
    drop(journal);
    let (_journal, numbers, _) = open_on(small(Path::new("/slow")), Arc::new(disk.disk.clone())).unwrap();
    assert_eq!(numbers, (0..=next).collect::<Vec<_>>());
}

#[test]
fn what_arrives_during_a_sync_is_one_batch() {
    let (disk, journal) = slow_journal();
    let held = disk.hold();
    let first = put(&journal, 0).unwrap();
    while journal.stats().waiting_records > 0 {
        thread::yield_now();
    }
    let others: Vec<_> = (1..10).map(|number| put(&journal, number).unwrap()).collect();
    assert_eq!(first.outcome(), None, "not acknowledged before the sync has ended");
    drop(held);
    first.wait().unwrap();
    others.into_iter().for_each(|receipt| receipt.wait().unwrap());
    let stats = journal.stats();
    assert_eq!((stats.batches, stats.batch_records_max, stats.records), (2, 9, 10));
}

#[test]
fn a_submitter_that_waits_for_room_is_told_when_the_journal_is_poisoned() {
    let (disk, journal) = slow_journal();
    let held = disk.hold();
    while journal.try_append(&[Record::new(KIND, 1, &[1; 100])]).is_ok() {}
    let waiting = thread::spawn({
        let journal = Arc::clone(&journal);
        move || journal.append(&[Record::new(KIND, 2, &[1; 100])]).and_then(millpond_journal::Receipt::wait)
    });
    disk.disk.fail_at(1, crate::sim_disk::Fault::Io);
    drop(held);
    assert!(matches!(waiting.join().unwrap(), Err(AppendError::Poisoned(_))));
}

#[test]
fn a_callback_may_append_and_may_be_the_last_owner() {
    let (disk, journal) = slow_journal();
    let held = disk.hold();
    let (sender, inbox) = std::sync::mpsc::channel();
    let inner = Arc::clone(&journal);
    put(&journal, 0).unwrap().on_synced(move |outcome| {
        outcome.unwrap();
        // More than fits: the callback is told so, and does not wait for its own thread.
        let full = (1..200).find_map(|number| put(&inner, number).err());
        sender.send(full).unwrap();
        drop(inner);
    });
    drop(journal);
    drop(held);
    let full = inbox.recv_timeout(crate::house::LONG).unwrap();
    assert!(matches!(full, Some(AppendError::Full { .. })), "{full:?}");
    let config = || small(Path::new("/slow"));
    let began = std::time::Instant::now();
    let numbers = loop {
        // The writer ends in its own time now.
        match open_on(config(), Arc::new(disk.disk.clone())) {
            Ok((_, numbers, _)) => break numbers,
            Err(error) => assert_eq!(error.code(), "journal-locked"),
        }
        assert!(began.elapsed() < crate::house::LONG, "the directory was never given back");
        thread::yield_now();
    };
    assert!(numbers.len() > 5 && numbers.iter().copied().eq(0..numbers.len() as u64), "{numbers:?}");
}
