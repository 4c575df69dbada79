//! Large payloads lie in files of their own, are there when their record is, and go when nothing names them.
//!
//! Crashes between a payload and its record are part of the story that `power.rs` and `faults.rs` tell.

use crate::house::{House, KIND, add, large_payload, open, open_on, put_large, small};
use crate::sim_disk::{Fault, SimDisk};
use millpond_journal::{AppendError, Payload, ReadError, Record, SpillRef};
use std::fs;
use std::path::Path;
use std::sync::Arc;

fn add_large(journal: &millpond_journal::Journal, number: u64) -> SpillRef {
    let receipt = put_large(journal, number).unwrap();
    let [(0, spill)] = receipt.spilled() else { panic!("{:?}", receipt.spilled()) };
    let spill = *spill;
    receipt.wait().unwrap();
    spill
}

fn spill_files(house: &House) -> Vec<String> {
    house.files().into_iter().filter(|name| name.starts_with("spill-")).collect()
}

#[test]
fn a_large_payload_comes_back_from_its_own_file() {
    let house = House::new("large");
    let (journal, _, _) = open(house.config()).unwrap();
    add(&journal, 1).unwrap();
    let spill = add_large(&journal, 2);
    assert_eq!(journal.read_spilled(&spill).unwrap(), large_payload(2));
    assert_eq!(journal.read(Payload::Bytes(b"small")).unwrap(), &b"small"[..]);
    assert_eq!(journal.read(Payload::Spilled(spill)).unwrap(), large_payload(2));
    add(&journal, 3).unwrap();
    assert_eq!((journal.stats().spill_files, journal.stats().spill_bytes), (1, spill.bytes));
    drop(journal);
    assert_eq!(spill_files(&house), ["spill-0000000000000001.mill"]);
    // `open` reads and compares every payload.
    let (journal, numbers, _) = open(house.config()).unwrap();
    assert_eq!(numbers, [1, 2, 3]);
    assert_eq!(add_large(&journal, 4).id, 2, "numbers are not used twice");
}

#[test]
fn a_large_payload_is_kept_while_something_names_it_and_no_longer() {
    let house = House::new("kept");
    let (journal, _, _) = open(house.config()).unwrap();
    let (kept, gone) = (add_large(&journal, 1), add_large(&journal, 2));
    let mut snapshot = journal.begin_snapshot().unwrap();
    let after = add_large(&journal, 3);
    snapshot.put(Record { kind: KIND, key: 1, payload: Payload::Spilled(kept) }).unwrap();
    // One that the snapshot writes itself.
    snapshot.put(Record::new(KIND, 4, &large_payload(4))).unwrap();
    let report = snapshot.finish().unwrap();
    assert_eq!(report.spills_removed, 1);
    assert!(matches!(journal.read_spilled(&gone), Err(ReadError::Io(..))));
    assert_eq!(journal.read_spilled(&after).unwrap(), large_payload(3));
    drop(journal);
    let (journal, numbers, _) = open(house.config()).unwrap();
    assert_eq!(numbers, [1, 4, 3]);
    assert_eq!(spill_files(&house).len(), 3);
    // Named once more by a record, it stays without the snapshot's help.
    let again = journal.append(&[Record { kind: KIND, key: 1, payload: Payload::Spilled(kept) }]).unwrap();
    again.wait().unwrap();
    journal.begin_snapshot().unwrap().finish().unwrap();
    assert_eq!((spill_files(&house).len(), journal.stats().spill_files), (0, 0));
}

#[test]
fn a_large_payload_that_is_gone_cannot_be_named_again() {
    let house = House::new("gone");
    let (journal, _, _) = open(house.config()).unwrap();
    let spill = add_large(&journal, 1);
    journal.begin_snapshot().unwrap().finish().unwrap();
    let record = Record { kind: KIND, key: 1, payload: Payload::Spilled(spill) };
    let error = journal.append(&[record]).unwrap_err();
    assert!(error.to_string().contains("spill-0000000000000001.mill"), "{error}");
    assert!(journal.begin_snapshot().unwrap().put(record).is_err());
    add(&journal, 2).unwrap();
    drop(journal);
    assert_eq!(open(house.config()).unwrap().1, [2]);
}

#[test]
fn a_snapshot_that_is_dropped_takes_its_large_payloads_with_it() {
    let house = House::new("taken");
    let (journal, _, _) = open(house.config()).unwrap();
    let mut snapshot = journal.begin_snapshot().unwrap();
    snapshot.put(Record::new(KIND, 4, &large_payload(4))).unwrap();
    assert_eq!(spill_files(&house).len(), 1);
    drop(snapshot);
    assert_eq!((spill_files(&house).len(), journal.stats().spill_bytes), (0, 0));
}

#[test]
fn a_large_payload_that_is_missing_or_short_stops_the_start() {
    let house = House::new("missing");
    let (journal, _, _) = open(house.config()).unwrap();
    add_large(&journal, 1);
    drop(journal);
    let path = house.file("spill-0000000000000001.mill");
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[1..]).unwrap();
    assert_eq!(open(house.config()).unwrap_err().code(), "journal-damaged");
    fs::remove_file(&path).unwrap();
    let error = open(house.config()).unwrap_err();
    assert!(error.to_string().contains("names spill-0000000000000001.mill"), "{error}");
    fs::write(&path, bytes).unwrap();
    assert_eq!(open(house.config()).unwrap().1, [1]);
}

#[test]
fn a_large_payload_that_was_changed_is_not_handed_out() {
    let house = House::new("changed");
    let (journal, _, _) = open(house.config()).unwrap();
    let spill = add_large(&journal, 1);
    let path = house.file("spill-0000000000000001.mill");
    let mut bytes = fs::read(&path).unwrap();
    bytes[100] ^= 1;
    fs::write(&path, bytes).unwrap();
    let error = journal.read_spilled(&spill).unwrap_err();
    assert!(matches!(&error, ReadError::Damaged(damaged) if *damaged == path), "{error}");
}

#[test]
fn there_are_only_so_many_large_payloads() {
    let house = House::new("many");
    let (journal, _, _) = open(house.config()).unwrap();
    for number in 0..16 {
        add_large(&journal, number);
    }
    let error = put_large(&journal, 16).unwrap_err();
    assert!(error.to_string().contains("raise spill_files_max"), "{error}");
    add(&journal, 17).unwrap();
}

#[test]
fn a_large_payload_that_finds_no_room_is_refused_and_leaves_nothing() {
    let disk = SimDisk::default();
    let (journal, _, _) = open_on(small(Path::new("/pond")), Arc::new(disk.clone())).unwrap();
    add(&journal, 1).unwrap();
    // The file is made, half of it written.
    disk.fail_at(2, Fault::Full);
    let error = put_large(&journal, 2).unwrap_err();
    assert!(matches!(&error, AppendError::Spill(_)), "{error}");
    assert!(error.to_string().contains("spill-0000000000000001.mill"), "{error}");
    assert!(disk.names().iter().all(|name| !name.to_str().unwrap().contains("spill")), "{:?}", disk.names());
    assert_eq!((journal.stats().spill_files, journal.stats().spill_bytes), (0, 0));
    add_large(&journal, 3);
    drop(journal);
    assert_eq!(open_on(small(Path::new("/pond")), Arc::new(disk)).unwrap().1, [1, 3]);
}
