//! Every call to the disk fails once, in every way, and what was acknowledged is there afterwards.
//!
//! The same story as for power cuts. After the fault the journal either goes on or is poisoned; the next start, on a
//! healed disk, finds everything that was acknowledged, nothing that was refused, and of what nobody knew only what
//! came first.

use crate::house::{LONG, add, open_on, put, small};
use crate::sim_disk::{Fault, Kept, SimDisk};
use crate::story::{DIRECTORY, Story, recovered};
use millpond_journal::{AppendError, JournalConfig, SnapshotError};
use std::path::Path;
use std::sync::Arc;

fn config() -> JournalConfig {
    small(Path::new(DIRECTORY))
}

fn every_call_fails(fault: Fault) {
    let (mut call, mut poisoned) = (1, 0);
    loop {
        let disk = SimDisk::default();
        disk.fail_at(call, fault);
        let story = Story::tell(&disk, 0);
        let done = !disk.has_failed();
        poisoned += u64::from(story.poisoned);
        disk.heal();
        // The machine stays up, or goes down with what was not synced.
        for after in [disk.after_power_cut(Kept::Nothing), disk.after_power_cut(Kept::Some(call)), disk] {
            let state = recovered(&after).unwrap_or_else(|error| panic!("{fault:?} at call {call}: {error}"));
            story.check(&state).unwrap_or_else(|wrong| panic!("{fault:?} at call {call}: {wrong}"));
        }
        if done {
            break;
        }
        call += 1;
    }
    assert!(call > 200, "the story has {call} calls only");
    match fault {
        Fault::Io => assert!(poisoned > 50, "only {poisoned} of {call} errors poisoned the log"),
        Fault::Short => assert_eq!(poisoned, 0, "a short write is no error"),
        _ => {}
    }
}

#[test]
fn an_error_at_any_call_loses_nothing_that_was_acknowledged() {
    every_call_fails(Fault::Io);
}

#[test]
fn a_full_disk_at_any_call_loses_nothing_that_was_acknowledged() {
    every_call_fails(Fault::Full);
}

#[test]
fn a_short_write_at_any_call_is_completed() {
    every_call_fails(Fault::Short);
}

#[test]
fn a_failed_sync_is_never_tried_again_and_nothing_is_acknowledged_after_it() {
    let disk = SimDisk::default();
    // In one segment, so that every call to the disk is about the record.
    let settings = JournalConfig { segment_bytes: 1 << 20, ..config() };
    let (journal, _, _) = open_on(settings, Arc::new(disk.clone())).unwrap();
    add(&journal, 1).unwrap();
    disk.fail_at(2, Fault::Io);
    let error = add(&journal, 2).unwrap_err();
    assert_eq!(error.code(), "journal-poisoned");
    assert!(error.to_string().contains("log-0000000000000001.mill: was not synced: simulated"), "{error}");
    disk.heal();
    let syncs = disk.syncs();
    for number in 3..10 {
        assert_eq!(put(&journal, number).unwrap_err().code(), "journal-poisoned");
    }
    assert!(matches!(journal.begin_snapshot().unwrap_err(), SnapshotError::Poisoned(_)));
    assert!(journal.stats().poisoned.is_some());
    assert!(matches!(journal.close(), Err(AppendError::Poisoned(_))));
    assert_eq!(disk.syncs(), syncs, "the sync was tried again");
}

#[test]
fn a_full_disk_refuses_and_takes_again_when_there_is_room() {
    let disk = SimDisk::default();
    let (journal, _, _) = open_on(config(), Arc::new(disk.clone())).unwrap();
    add(&journal, 0).unwrap();
    // The first segment is made; there is no room for a second.
    disk.set_room(Some(disk.used()));
    let mut number = 1;
    let refusal = loop {
        match add(&journal, number) {
            Ok(()) => number += 1,
            Err(error) => break error,
        }
        assert!(number < 1000, "the disk was never full");
    };
    assert_eq!(refusal.code(), "journal-refused");
    assert!(refusal.to_string().contains("no room; make room on the disk"), "{refusal}");
    assert_eq!(add(&journal, number).unwrap_err().code(), "journal-refused", "still full");
    assert_eq!(journal.poisoned(), None);
    assert!(journal.stats().records_refused >= 2);
    disk.set_room(None);
    (number..number + 50).for_each(|number| add(&journal, number).unwrap());
    drop(journal);
    let (_journal, numbers, recovery) = open_on(config(), Arc::new(disk)).unwrap();
    assert_eq!(numbers, (0..number + 50).collect::<Vec<_>>());
    assert!(recovery.clean);
}

#[test]
fn a_full_disk_is_not_asked_again_before_its_time() {
    let disk = SimDisk::default();
    let settings = JournalConfig { full_retry: LONG * 100, ..config() };
    let (journal, _, _) = open_on(settings, Arc::new(disk.clone())).unwrap();
    disk.set_room(Some(disk.used()));
    let mut number = 0;
    while add(&journal, number).is_ok() {
        number += 1;
    }
    disk.set_room(None);
    let calls = disk.calls();
    assert_eq!(add(&journal, number).unwrap_err().code(), "journal-refused");
    assert_eq!(disk.calls(), calls, "the disk was asked");
}

#[test]
fn everybody_who_waits_is_told_of_the_poison() {
    let disk = SimDisk::default();
    // One segment is enough: one that cannot be made refuses, and does not poison.
    let settings = JournalConfig { segment_bytes: 1 << 20, ..config() };
    let (journal, _, _) = open_on(settings, Arc::new(disk.clone())).unwrap();
    let journal = Arc::new(journal);
    disk.fail_at(30, Fault::Io);
    let submitters = (0..8).map(|submitter| {
        let journal = Arc::clone(&journal);
        std::thread::spawn(move || {
            (0..1000).map(|turn| add(&journal, submitter * 1000 + turn)).find_map(Result::err)
        })
    });
    for submitter in submitters.collect::<Vec<_>>() {
        let error = submitter.join().unwrap().expect("the error reaches every submitter");
        assert!(matches!(error, AppendError::Poisoned(_)), "{error}");
    }
}
