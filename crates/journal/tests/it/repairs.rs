//! A damaged journal is mended: what is whole comes back, the rest is put aside and told, and nothing is deleted.
//!
//! Every byte of a journal with a snapshot, three segments and large payloads is damaged, one at a time.

use crate::house::{KIND, add, large_payload, open_on, payload, put_large, small};
use crate::sim_disk::{Fault, Kept, SimDisk};
use millpond_journal::{Disk, FileState, JournalConfig, OpenError, Record, inspect, repair};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const POND: &str = "/pond";
/// In the order of their records: 0 to 9 in the snapshot, with a large one; the others in the log.
const RECORDS: u64 = 70;

fn config() -> JournalConfig {
    small(Path::new(POND))
}

fn path(name: &str) -> PathBuf {
    Path::new(POND).join(name)
}

fn journal() -> SimDisk {
    let disk = SimDisk::default();
    let (journal, _, _) = open_on(config(), Arc::new(disk.clone())).unwrap();
    add(&journal, 0).unwrap();
    let mut snapshot = journal.begin_snapshot().unwrap();
    for number in 0..9 {
        snapshot.put(Record::new(KIND, number, &payload(number))).unwrap();
    }
    snapshot.put(Record::new(KIND, 9, &large_payload(9))).unwrap();
    snapshot.finish().unwrap();
    (10..40).for_each(|number| add(&journal, number).unwrap());
    put_large(&journal, 40).unwrap().wait().unwrap();
    (41..RECORDS).for_each(|number| add(&journal, number).unwrap());
    journal.close().unwrap();
    disk
}

fn files(disk: &SimDisk) -> Vec<PathBuf> {
    let names = disk.names().into_iter();
    names.filter(|name| !name.to_str().unwrap().contains("lock")).collect()
}

fn open(disk: &SimDisk) -> Result<Vec<u64>, OpenError> {
    open_on(config(), Arc::new(disk.clone())).map(|(_, numbers, _)| numbers)
}

#[test]
fn a_sound_journal_is_left_as_it_is() {
    let disk = journal();
    let before: Vec<_> = files(&disk).iter().map(|name| (name.clone(), disk.content(name))).collect();
    let report = repair(Path::new(POND), &disk).unwrap();
    assert!(report.is_empty() && report.spills_put_aside.is_empty(), "{report:?}");
    assert_eq!((report.records_kept, report.records_lost), (RECORDS, 0));
    let after: Vec<_> = files(&disk).iter().map(|name| (name.clone(), disk.content(name))).collect();
    assert!(before == after);
    assert!(inspect(Path::new(POND), &disk).unwrap().is_sound());
}

#[test]
fn any_damaged_byte_costs_one_record_at_most() {
    let disk = journal();
    let (mut mended, mut lost) = (0, 0);
    // Large payloads have tests of their own below.
    let is_log = |name: &PathBuf| !name.to_str().unwrap().contains("spill");
    for name in files(&disk).into_iter().filter(is_log) {
        for offset in (0..disk.content(&name).len()).step_by(3) {
            let damaged = disk.copy();
            damaged.scribble(&name, |bytes| bytes[offset] ^= 1 << (offset % 8));
            let Err(error) = open(&damaged) else { continue };
            assert!(!inspect(Path::new(POND), &damaged).unwrap().is_sound(), "{name:?} at {offset}: {error}");
            let report = repair(Path::new(POND), &damaged).unwrap();
            let numbers = open(&damaged).unwrap_or_else(|error| panic!("{name:?} at {offset}: {error}"));
            assert!(numbers.is_sorted() && numbers.len() as u64 + 1 >= RECORDS, "{name:?} at {offset}");
            assert_eq!(report.records_kept, numbers.len() as u64, "{name:?} at {offset}: {report:?}");
            let [file] = report.files.as_slice() else { panic!("{name:?} at {offset}: {report:?}") };
            assert_eq!(path(&file.name), name);
            // What was there is still there, under another name.
            let mut expected = disk.content(&name);
            expected[offset] ^= 1 << (offset % 8);
            assert!(damaged.content(&path(&file.put_aside)) == expected, "{name:?} at {offset}");
            let missing = RECORDS - numbers.len() as u64;
            assert_eq!(report.records_lost, missing, "{name:?} at {offset}: {report:?}");
            assert!(missing == 0 || file.bytes_lost > 0, "{name:?} at {offset}: {report:?}");
            mended += 1;
            lost += missing;
        }
    }
    assert!(mended > 1000 && lost > 500, "{mended} mended, {lost} lost");
}

#[test]
fn a_mended_journal_goes_on() {
    let damaged = journal();
    damaged.scribble(&path("log-0000000000000003.mill"), |bytes| bytes[4096 + 300..4096 + 500].fill(0xEE));
    assert!(open(&damaged).is_err());
    let report = repair(Path::new(POND), &damaged).unwrap();
    assert!(report.records_lost >= 2, "{report:?}");
    let first = open(&damaged).unwrap();
    {
        let (journal, _, _) = open_on(config(), Arc::new(damaged.clone())).unwrap();
        (100..200).for_each(|number| add(&journal, number).unwrap());
    }
    let expected: Vec<_> = first.into_iter().chain(100..200).collect();
    assert_eq!(open(&damaged).unwrap(), expected);
    assert!(repair(Path::new(POND), &damaged).unwrap().is_empty(), "nothing more to mend");
    // Damage in a mended file is mended as well.
    damaged.scribble(&path("log-0000000000000003.mill"), |bytes| bytes[4096 + 45] ^= 1);
    assert!(open(&damaged).is_err());
    let again = repair(Path::new(POND), &damaged).unwrap();
    assert_eq!(again.files.len(), 1);
    assert!(again.files[0].put_aside.starts_with("damaged-0002-"), "{again:?}");
    assert_eq!(open(&damaged).unwrap().len(), expected.len() - 1);
}

#[test]
fn missing_files_are_replaced_by_empty_ones() {
    for name in ["log-0000000000000003.mill", "log-0000000000000002.mill", "snapshot-0000000000000002.mill"] {
        let damaged = journal();
        Disk::remove(&damaged, &path(name)).unwrap();
        assert!(open(&damaged).is_err(), "{name}");
        let report = repair(Path::new(POND), &damaged).unwrap();
        assert_eq!(report.missing, [name], "{report:?}");
        let numbers = open(&damaged).unwrap();
        assert!(numbers.is_sorted() && numbers.len() > 30, "{name}: {numbers:?}");
        assert_eq!(report.records_kept, numbers.len() as u64);
    }
}

#[test]
fn a_large_payload_that_is_damaged_is_put_aside_with_its_record() {
    let damaged = journal();
    damaged.scribble(&path("spill-0000000000000002.mill"), |bytes| bytes[3] ^= 1);
    let report = repair(Path::new(POND), &damaged).unwrap();
    assert_eq!(report.spills_put_aside, ["damaged-0001-spill-0000000000000002.mill"]);
    assert_eq!(report.records_lost, 1, "{report:?}");
    let expected: Vec<_> = (0..RECORDS).filter(|number| *number != 40).collect();
    assert_eq!(open(&damaged).unwrap(), expected);
}

#[test]
fn a_large_payload_whose_record_is_lost_is_kept_aside() {
    let damaged = journal();
    let bytes = damaged.content(&path("log-0000000000000003.mill"));
    let id = 2_u64.to_le_bytes();
    let at = bytes[4096..].windows(8).position(|window| window == id).map(|at| at + 4096);
    let name = if at.is_some() { "log-0000000000000003.mill" } else { "log-0000000000000002.mill" };
    let bytes = damaged.content(&path(name));
    let large =
        (4096..bytes.len() - 40).step_by(8).find(|at| bytes[at + 33] == 2 && bytes[at + 32] == KIND).unwrap();
    damaged.scribble(&path(name), |bytes| bytes[large + 41] ^= 1);
    let content = damaged.content(&path("spill-0000000000000002.mill"));
    let report = repair(Path::new(POND), &damaged).unwrap();
    let [aside] = report.spills_put_aside.as_slice() else { panic!("{report:?}") };
    assert!(!open(&damaged).unwrap().contains(&40));
    assert_eq!(damaged.content(&path(aside)), content);
}

#[test]
fn a_repair_that_is_cut_short_can_be_begun_again() {
    let damaged = journal();
    damaged.scribble(&path("log-0000000000000003.mill"), |bytes| bytes[4096 + 300] ^= 1);
    damaged.scribble(&path("snapshot-0000000000000002.mill"), |bytes| bytes[4096 + 60] ^= 1);
    let mended = damaged.copy();
    repair(Path::new(POND), &mended).unwrap();
    let expected = open(&mended).unwrap();
    let mut call = 1;
    loop {
        let broken = damaged.copy();
        broken.fail_at(call, Fault::PowerCut);
        let _ = repair(Path::new(POND), &broken);
        let done = !broken.has_failed();
        for kept in [Kept::Nothing, Kept::Everything, Kept::Some(call)] {
            let after = broken.after_power_cut(kept);
            repair(Path::new(POND), &after).unwrap();
            assert_eq!(open(&after).unwrap(), expected, "call {call}, {kept:?}");
        }
        if done {
            break;
        }
        call += 1;
    }
    assert!(call > 20);
}

#[test]
fn a_torn_tail_is_left_to_the_start() {
    let disk = SimDisk::default();
    let (journal, _, _) = open_on(config(), Arc::new(disk.clone())).unwrap();
    (0..5).for_each(|number| add(&journal, number).unwrap());
    let torn = disk.copy();
    drop(journal);
    let name = path("log-0000000000000001.mill");
    let end = torn.content(&name).iter().rposition(|byte| *byte != 0).unwrap();
    torn.scribble(&name, |bytes| bytes[end - 4..].fill(0));
    let inspection = inspect(Path::new(POND), &torn).unwrap();
    assert!(matches!(inspection.files[0].state, FileState::Torn { .. }) && inspection.is_sound());
    let report = repair(Path::new(POND), &torn).unwrap();
    assert!(report.is_empty() && report.records_kept == 4, "{report:?}");
    assert_eq!(open(&torn).unwrap(), [0, 1, 2, 3]);
}

#[test]
fn a_journal_in_use_can_be_looked_at_but_not_mended() {
    let disk = journal();
    let (journal, numbers, _) = open_on(config(), Arc::new(disk.clone())).unwrap();
    let error = repair(Path::new(POND), &disk).unwrap_err();
    assert!(error.to_string().contains("(pid 4711)"), "{error}");
    let inspection = inspect(Path::new(POND), &disk).unwrap();
    assert_eq!(inspection.snapshot_records + inspection.log_records, numbers.len() as u64);
    assert_eq!((inspection.spill_files, inspection.parts), (2, 0));
    assert_eq!(inspection.files[0].name, "snapshot-0000000000000002.mill");
    drop(journal);
}

#[test]
fn files_of_a_newer_release_are_not_mended() {
    let disk = journal();
    disk.scribble(&path("log-0000000000000003.mill"), |bytes| {
        bytes[8] = 2;
        bytes[2048 + 8] = 2;
    });
    let error = repair(Path::new(POND), &disk).unwrap_err();
    assert!(error.to_string().contains("format 2"), "{error}");
    let empty = repair(Path::new("/elsewhere"), &disk).unwrap();
    assert!(empty.is_empty());
}
