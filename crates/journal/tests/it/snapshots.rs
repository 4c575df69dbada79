//! A snapshot replaces the log before it, at any time, and never costs a record.
//!
//! Crashes during a snapshot are part of the story that `power.rs` and `faults.rs` tell.

use crate::house::{House, KIND, add, open, open_on, payload, put, small};
use crate::sim_disk::SimDisk;
use millpond_journal::{Journal, JournalConfig, Record, SnapshotError, SnapshotWriter};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

fn fill(snapshot: &mut SnapshotWriter, numbers: impl IntoIterator<Item = u64>) {
    for number in numbers {
        snapshot.put(Record::new(KIND, number, &payload(number))).unwrap();
    }
}

fn take(journal: &Journal, numbers: impl IntoIterator<Item = u64>) {
    let mut snapshot = journal.begin_snapshot().unwrap();
    fill(&mut snapshot, numbers);
    snapshot.finish().unwrap();
}

#[test]
fn a_snapshot_replaces_what_came_before_and_the_log_goes_on() {
    let house = House::new("replace");
    let (journal, _, _) = open(house.config()).unwrap();
    (0..100).for_each(|number| add(&journal, number).unwrap());
    let before = journal.stats().segments;
    let mut snapshot = journal.begin_snapshot().unwrap();
    fill(&mut snapshot, [3, 50, 99]);
    let report = snapshot.finish().unwrap();
    assert_eq!((report.records, report.files_removed, report.spills_removed), (3, before, 0));
    (100..110).for_each(|number| add(&journal, number).unwrap());
    let stats = journal.stats();
    assert_eq!((stats.segments, stats.snapshot_records, stats.snapshot_bytes), (1, 3, report.bytes));
    assert!(stats.snapshot_age.is_some() && stats.log_bytes < 2000, "{stats:?}");
    drop(journal);
    let files = house.files();
    assert_eq!(files.len(), 2, "{files:?}");
    let (journal, numbers, recovery) = open(house.config()).unwrap();
    assert_eq!(numbers, [3, 50, 99].into_iter().chain(100..110).collect::<Vec<_>>());
    assert_eq!((recovery.snapshot_records, recovery.log_records), (3, 10));
    // And again, over the first.
    take(&journal, [1]);
    add(&journal, 2).unwrap();
    drop(journal);
    assert_eq!(open(house.config()).unwrap().1, [1, 2]);
    assert_eq!(house.files().iter().filter(|name| name.starts_with("snapshot")).count(), 1);
}

#[test]
fn the_cut_is_at_the_call_whatever_is_still_on_its_way() {
    let house = House::new("cut");
    let (journal, _, _) = open(house.config()).unwrap();
    let before: Vec<_> = (0..8).map(|number| put(&journal, number).unwrap()).collect();
    let mut snapshot = journal.begin_snapshot().unwrap();
    let after: Vec<_> = (8..20).map(|number| put(&journal, number).unwrap()).collect();
    fill(&mut snapshot, 0..8);
    snapshot.finish().unwrap();
    before.into_iter().chain(after).for_each(|receipt| receipt.wait().unwrap());
    drop(journal);
    let (_journal, numbers, recovery) = open(house.config()).unwrap();
    assert_eq!(numbers, (0..20).collect::<Vec<_>>(), "each record once");
    assert_eq!((recovery.snapshot_records, recovery.log_records), (8, 12));
}

#[test]
fn appends_go_on_while_snapshots_are_written() {
    let house = House::new("beside");
    let (journal, _, _) = open(house.config()).unwrap();
    let (journal, over) = (Arc::new(journal), Arc::new(AtomicBool::new(false)));
    let appending = thread::spawn({
        let (journal, over) = (Arc::clone(&journal), Arc::clone(&over));
        move || {
            let mut number = 1000;
            while !over.load(Relaxed) {
                add(&journal, number).unwrap();
                number += 1;
            }
            number
        }
    });
    // Each snapshot keeps what the appender has added so far out of it, which is the owner's right.
    for turn in 0..20 {
        take(&journal, 0..turn);
    }
    over.store(true, Relaxed);
    let end = appending.join().unwrap();
    drop(journal);
    let (_journal, numbers, recovery) = open(house.config()).unwrap();
    assert_eq!(recovery.snapshot_records, 19);
    assert_eq!(numbers[..19], (0..19).collect::<Vec<_>>());
    let log = &numbers[19..];
    assert_eq!(log, (end - log.len() as u64..end).collect::<Vec<_>>(), "the log from the cut to the end");
}

#[test]
fn a_snapshot_that_is_dropped_changes_nothing() {
    let house = House::new("dropped");
    let (journal, _, _) = open(house.config()).unwrap();
    (0..30).for_each(|number| add(&journal, number).unwrap());
    let mut snapshot = journal.begin_snapshot().unwrap();
    fill(&mut snapshot, [7]);
    drop(snapshot);
    add(&journal, 30).unwrap();
    drop(journal);
    assert!(house.files().iter().all(|name| name.starts_with("log-")), "{:?}", house.files());
    assert_eq!(open(house.config()).unwrap().1, (0..=30).collect::<Vec<_>>());
}

#[test]
fn there_is_one_snapshot_at_a_time() {
    let house = House::new("one");
    let (journal, _, _) = open(house.config()).unwrap();
    let first = journal.begin_snapshot().unwrap();
    assert_eq!(journal.begin_snapshot().unwrap_err(), SnapshotError::Running);
    drop(first);
    take(&journal, []);
    take(&journal, []);
}

#[test]
fn a_snapshot_outlives_the_journal_that_began_it() {
    let house = House::new("outlives");
    let (journal, _, _) = open(house.config()).unwrap();
    (0..10).for_each(|number| add(&journal, number).unwrap());
    let mut snapshot = journal.begin_snapshot().unwrap();
    drop(journal);
    assert_eq!(open(house.config()).unwrap_err().code(), "journal-locked", "it still has the directory");
    fill(&mut snapshot, 0..10);
    snapshot.finish().unwrap();
    assert_eq!(open(house.config()).unwrap().1, (0..10).collect::<Vec<_>>());
}

#[test]
fn a_snapshot_is_wanted_when_the_log_has_outgrown_the_last() {
    let house = House::new("wanted");
    let (journal, _, _) = open(house.config()).unwrap();
    let mut number = 0;
    while !journal.wants_snapshot() {
        assert!(journal.stats().log_bytes < 4096);
        add(&journal, number).unwrap();
        number += 1;
    }
    take(&journal, 0..number * 2);
    assert!(!journal.wants_snapshot());
    let bytes = journal.stats().snapshot_bytes;
    assert!(bytes > 8192);
    while !journal.wants_snapshot() {
        assert!(journal.stats().log_bytes < bytes);
        add(&journal, number).unwrap();
        number += 1;
    }
    // The hint survives a restart.
    drop(journal);
    assert!(open(house.config()).unwrap().0.wants_snapshot());
}

#[test]
fn any_flipped_bit_of_a_snapshot_stops_the_start() {
    let disk = SimDisk::default();
    let config = || JournalConfig { batch_bytes_max: 1024, ..small(Path::new("/pond")) };
    let (journal, _, _) = open_on(config(), Arc::new(disk.clone())).unwrap();
    (0..20).for_each(|number| add(&journal, number).unwrap());
    take(&journal, 0..20);
    journal.close().unwrap();
    let path = Path::new("/pond/snapshot-0000000000000002.mill");
    let (mut stopped, mut unseen) = (0, 0);
    for offset in 0..disk.content(path).len() {
        let flipped = disk.copy();
        flipped.scribble(path, |bytes| bytes[offset] ^= 1 << (offset % 8));
        match open_on(config(), Arc::new(flipped)) {
            Ok((_, numbers, _)) => {
                assert_eq!(numbers, (0..20).collect::<Vec<_>>(), "{offset}");
                unseen += 1;
            }
            Err(error) => {
                assert!(error.to_string().starts_with("/pond/snapshot-0000000000000002.mill"), "{error}");
                stopped += 1;
            }
        }
    }
    // The header is mostly padding, and so are the last bytes of many records.
    assert!(stopped > 1000 && unseen < 4096 + 20 * 8, "{stopped} stopped, {unseen} unseen");
    for length in 0..disk.content(path).len() {
        let shorter = disk.copy();
        shorter.scribble(path, |bytes| bytes.truncate(length));
        assert!(open_on(config(), Arc::new(shorter)).is_err(), "cut to {length}");
    }
}

#[test]
fn a_snapshot_without_its_segment_stops_the_start() {
    let house = House::new("without");
    let (journal, _, _) = open(house.config()).unwrap();
    add(&journal, 1).unwrap();
    take(&journal, [1]);
    drop(journal);
    std::fs::remove_file(house.file("log-0000000000000002.mill")).unwrap();
    let error = open(house.config()).unwrap_err();
    assert_eq!(error.code(), "journal-damaged");
    assert!(error.to_string().contains("log-0000000000000002.mill"), "{error}");
}

#[test]
fn a_snapshot_that_finds_no_room_leaves_the_log_unharmed() {
    let disk = SimDisk::default();
    let config = || small(Path::new("/pond"));
    let (journal, _, _) = open_on(config(), Arc::new(disk.clone())).unwrap();
    (0..5).for_each(|number| add(&journal, number).unwrap());
    disk.set_room(Some(disk.used() + 100));
    let mut snapshot = journal.begin_snapshot().unwrap();
    fill(&mut snapshot, 0..5);
    let error = snapshot.finish().unwrap_err();
    assert!(matches!(error, SnapshotError::Failed(_)), "{error}");
    assert!(error.to_string().contains("no room"), "{error}");
    add(&journal, 5).unwrap();
    disk.set_room(None);
    take(&journal, 0..6);
    add(&journal, 6).unwrap();
    drop(journal);
    assert_eq!(open_on(config(), Arc::new(disk)).unwrap().1, (0..7).collect::<Vec<_>>());
}
