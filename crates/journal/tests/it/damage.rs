//! Torn tails are cut, damage stops the start, and no flipped bit ever makes a wrong record.
//!
//! Every byte of a small log is flipped, and its last record is torn at every byte.

use crate::house::{KIND, add, open_on, payload, small};
use crate::sim_disk::SimDisk;
use millpond_journal::{Journal, JournalConfig, OpenError, Record};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const HEADER: usize = 4096;

fn config() -> JournalConfig {
    small(Path::new("/pond"))
}

fn path(name: &str) -> PathBuf {
    Path::new("/pond").join(name)
}

fn open(disk: &SimDisk) -> Result<(Journal, Vec<u64>, millpond_journal::Recovery), OpenError> {
    open_on(config(), Arc::new(disk.clone()))
}

/// A disk as a killed process leaves it, with so many records.
fn unclosed(records: u64) -> SimDisk {
    let disk = SimDisk::default();
    let (journal, _, _) = open(&disk).unwrap();
    (0..records).for_each(|number| add(&journal, number).unwrap());
    let copy = disk.copy();
    drop(journal);
    copy
}

/// Where the records end, in a file that ends with zeros.
fn end_of(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| (last + 1).next_multiple_of(8))
}

#[test]
fn a_record_torn_at_any_byte_is_cut_and_the_log_goes_on() {
    let last = path("log-0000000000000001.mill");
    let (shorter, whole) = (unclosed(5), unclosed(6));
    let begin = end_of(&shorter.content(&last));
    let end = end_of(&whole.content(&last));
    assert!(begin < end && begin > HEADER);
    for cut in begin..end {
        let torn = whole.copy();
        torn.scribble(&last, |bytes| bytes[cut..].fill(0));
        let (journal, numbers, recovery) = open(&torn).unwrap();
        // The padding at the end of a record is zeros anyway.
        let count = if numbers.len() == 6 { 6 } else { 5 };
        assert_eq!(numbers, (0..count).collect::<Vec<_>>(), "torn at {cut}");
        assert!(count == 5 || end - cut < 8, "torn at {cut}");
        assert!(recovery.cut_bytes <= (cut - begin) as u64);
        assert_eq!(recovery.cut_offset, if recovery.cut_bytes > 0 { begin as u64 } else { 0 });
        add(&journal, count).unwrap();
        drop(journal);
        let (_journal, numbers, recovery) = open(&torn).unwrap();
        assert_eq!((numbers, recovery.cut_bytes), ((0..=count).collect::<Vec<_>>(), 0), "torn at {cut}");
    }
}

#[test]
fn any_flipped_bit_is_cut_from_the_tail_or_stops_the_start() {
    // One segment with single batches, a second that is half full; as a kill leaves it.
    let disk = unclosed(30);
    let names = disk.names();
    assert_eq!(names.iter().filter(|name| name.to_str().unwrap().contains("log-")).count(), 2, "{names:?}");
    let (mut cut, mut stopped, mut unseen) = (0, 0, 0);
    for name in names.iter().filter(|name| name.to_str().unwrap().contains("log-")) {
        let is_last = name.ends_with("log-0000000000000002.mill");
        for offset in 0..disk.content(name).len() {
            let flipped = disk.copy();
            flipped.scribble(name, |bytes| bytes[offset] ^= 1 << (offset % 8));
            match open(&flipped) {
                Ok((_, numbers, _)) => {
                    // `open` has compared every record with what was written.
                    assert_eq!(numbers, (0..numbers.len() as u64).collect::<Vec<_>>(), "{offset}");
                    let whole = numbers.len() == 30;
                    assert!(whole || (is_last && numbers.len() == 29), "{offset}: {}", numbers.len());
                    *(if whole { &mut unseen } else { &mut cut }) += 1;
                }
                Err(
                    OpenError::Damaged { path, .. } | OpenError::Foreign { path } | OpenError::Mixed { path },
                ) => {
                    assert_eq!(path, *name, "{offset}");
                    stopped += 1;
                }
                Err(error) => panic!("{offset}: {error}"),
            }
        }
    }
    assert!(cut > 40 && stopped > 1000 && unseen > 4000, "{cut} cut, {stopped} stopped, {unseen} unseen");
}

#[test]
fn after_a_close_every_record_is_guarded() {
    let disk = SimDisk::default();
    let (journal, _, _) = open(&disk).unwrap();
    (0..6).for_each(|number| add(&journal, number).unwrap());
    journal.close().unwrap();
    let name = path("log-0000000000000001.mill");
    let end = end_of(&disk.content(&name)) - 40;
    for offset in HEADER..end {
        let flipped = disk.copy();
        flipped.scribble(&name, |bytes| bytes[offset] ^= 0x10);
        match open(&flipped) {
            Err(error) => assert_eq!(error.code(), "journal-damaged", "{offset}"),
            // The zeros between records mean nothing.
            Ok((_, numbers, _)) => assert_eq!(numbers.len(), 6, "{offset}"),
        }
    }
}

#[test]
fn an_append_that_is_not_whole_is_not_there_at_all() {
    let disk = SimDisk::default();
    let (journal, _, _) = open(&disk).unwrap();
    add(&journal, 0).unwrap();
    let name = path("log-0000000000000001.mill");
    let begin = end_of(&disk.content(&name));
    let payloads: Vec<_> = (1..5).map(payload).collect();
    let records: Vec<_> =
        (1..5).map(|number| Record::new(KIND, number, &payloads[number as usize - 1])).collect();
    journal.append(&records).unwrap().wait().unwrap();
    let whole = disk.copy();
    drop(journal);
    let end = end_of(&whole.content(&name));
    for cut in (begin..end - 8).step_by(3) {
        let torn = whole.copy();
        torn.scribble(&name, |bytes| bytes[cut..].fill(0));
        assert_eq!(open(&torn).unwrap().1, [0], "torn at {cut}");
    }
    assert_eq!(open(&whole).unwrap().1, [0, 1, 2, 3, 4]);
}

#[test]
fn a_segment_that_was_cut_short_stops_the_start() {
    let disk = unclosed(30);
    for name in ["log-0000000000000001.mill", "log-0000000000000002.mill"] {
        for length in 0..disk.content(&path(name)).len() {
            let shorter = disk.copy();
            shorter.scribble(&path(name), |bytes| bytes.truncate(length));
            let error = open(&shorter).unwrap_err();
            assert!(matches!(error.code(), "journal-damaged" | "journal-foreign"), "{length}: {error}");
        }
    }
}

#[test]
fn a_missing_segment_is_missed() {
    let disk = unclosed(120);
    for missing in [1, 2, 3] {
        let gap = disk.copy();
        millpond_journal::Disk::remove(&gap, &path(&format!("log-{missing:016}.mill"))).unwrap();
        let error = open(&gap).unwrap_err();
        assert!(matches!(&error, OpenError::Damaged { what, .. } if what.contains("missing")), "{error}");
    }
    let error = open(&{
        let gap = disk.copy();
        gap.scribble(&path("log-0000000000000002.mill"), |bytes| bytes[HEADER..].fill(0));
        gap
    })
    .unwrap_err();
    assert!(error.to_string().contains("records at the end of the file before it are missing"), "{error}");
}
