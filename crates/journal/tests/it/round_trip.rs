//! What goes in comes out: in order, in every mode, over many segments and restarts.
//!
//! Without a crash; those have files of their own.

use crate::house::{House, KIND, LONG, add, open, payload, put};
use millpond_journal::{AppendError, Journal, JournalConfig, Record, SyncMode};
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

#[test]
fn records_come_back_in_order_over_segments_and_restarts() {
    for sync in [SyncMode::Group, SyncMode::Interval(Duration::from_millis(1)), SyncMode::Off] {
        let house = House::new("order");
        let config = || JournalConfig { sync, ..house.config() };
        let mut expected = Vec::new();
        for run in 0..5 {
            let (journal, numbers, recovery) = open(config()).unwrap();
            assert_eq!(numbers, expected, "{sync}");
            assert_eq!((recovery.created, recovery.clean), (run == 0, run > 0), "{sync}");
            assert_eq!((recovery.cut_bytes, recovery.log_records), (0, numbers.len() as u64));
            for number in run * 100..run * 100 + 100 {
                add(&journal, number).unwrap();
                expected.push(number);
            }
            assert!(journal.stats().segments > 2, "{:?}", journal.stats());
            journal.close().unwrap();
        }
    }
}

#[test]
fn a_new_journal_is_empty_and_says_so() {
    let house = House::new("new");
    let (journal, numbers, recovery) = open(house.config()).unwrap();
    assert!(numbers.is_empty() && recovery.created && !recovery.clean);
    drop(journal);
    assert_eq!(house.files(), ["log-0000000000000001.mill"]);
    let (_journal, numbers, recovery) = open(house.config()).unwrap();
    assert!(numbers.is_empty() && !recovery.created && recovery.clean);
}

#[test]
fn many_submitters_share_syncs_and_each_keeps_its_order() {
    let house = House::new("many");
    let (journal, _, _) = open(house.config()).unwrap();
    let journal = Arc::new(journal);
    let submitters = (0..16).map(|submitter| {
        let journal = Arc::clone(&journal);
        thread::spawn(move || (0..50).for_each(|turn| add(&journal, submitter * 1000 + turn).unwrap()))
    });
    submitters.collect::<Vec<_>>().into_iter().for_each(|thread| thread.join().unwrap());
    let stats = journal.stats();
    assert_eq!((stats.records, stats.waiting_records, stats.waiting_bytes), (800, 0, 0));
    assert_eq!(stats.batch_records_classes.iter().sum::<u64>(), stats.batches);
    drop(journal);
    let (_journal, numbers, _) = open(house.config()).unwrap();
    for submitter in 0..16 {
        let own: Vec<_> = numbers.iter().filter(|number| **number / 1000 == submitter).collect();
        let expected: Vec<_> = (0..50).map(|turn| submitter * 1000 + turn).collect();
        assert_eq!(own, expected.iter().collect::<Vec<_>>());
    }
}

#[test]
fn what_is_handed_in_and_not_waited_for_is_written_all_the_same() {
    let house = House::new("dropped");
    let (journal, _, _) = open(house.config()).unwrap();
    for number in 0..40 {
        drop(put(&journal, number).unwrap());
    }
    journal.close().unwrap();
    let (_journal, numbers, _) = open(house.config()).unwrap();
    assert_eq!(numbers, (0..40).collect::<Vec<_>>());
}

#[test]
fn a_callback_comes_when_the_record_is_safe() {
    let house = House::new("callback");
    let (journal, _, _) = open(house.config()).unwrap();
    let (sender, inbox) = mpsc::channel();
    for number in 0..20 {
        let sender = sender.clone();
        put(&journal, number).unwrap().on_synced(move |outcome| sender.send((number, outcome)).unwrap());
    }
    for expected in 0..20 {
        assert_eq!(inbox.recv_timeout(LONG).unwrap(), (expected, Ok(())));
    }
}

#[test]
fn an_append_of_many_is_one_piece_and_one_of_none_is_nothing() {
    let house = House::new("pieces");
    let (journal, _, _) = open(house.config()).unwrap();
    let payloads: Vec<_> = (0..5).map(payload).collect();
    let records: Vec<_> =
        (0..5).map(|number| Record::new(KIND, number, &payloads[number as usize])).collect();
    journal.append(&records).unwrap().wait().unwrap();
    assert_eq!(journal.append(&[]).unwrap().wait_timeout(LONG), Some(Ok(())));
    add(&journal, 5).unwrap();
    drop(journal);
    assert_eq!(open(house.config()).unwrap().1, [0, 1, 2, 3, 4, 5]);
}

#[test]
fn a_closed_journal_takes_nothing_and_loses_nothing() {
    let house = House::new("closed");
    let (journal, _, _) = open(house.config()).unwrap();
    let receipts: Vec<_> = (0..10).map(|number| put(&journal, number).unwrap()).collect();
    journal.close().unwrap();
    receipts.into_iter().for_each(|receipt| assert_eq!(receipt.outcome(), Some(Ok(()))));
    assert_eq!(AppendError::Closed.code(), "journal-closed");
    let (again, numbers, recovery) = open(house.config()).unwrap();
    assert_eq!((numbers.len(), recovery.clean), (10, true));
    drop(again);
}

#[test]
fn the_segments_may_change_their_size_between_runs() {
    let house = House::new("size");
    for (run, segment_bytes) in [(0, 6144), (1, 20_000), (2, 8192)] {
        let config = JournalConfig { segment_bytes, ..house.config() };
        let (journal, numbers, _) = open(config).unwrap();
        assert_eq!(numbers, (0..run * 60).collect::<Vec<_>>());
        (run * 60..run * 60 + 60).for_each(|number| add(&journal, number).unwrap());
    }
}

#[test]
fn an_interval_syncs_by_itself() {
    let house = House::new("interval");
    let config = JournalConfig { sync: SyncMode::Interval(Duration::from_millis(2)), ..house.config() };
    let (journal, _) = Journal::open(config, |_| ()).unwrap();
    add(&journal, 1).unwrap();
    let began = std::time::Instant::now();
    while journal.stats().syncs == 0 {
        assert!(began.elapsed() < LONG, "no sync came");
        thread::sleep(Duration::from_millis(1));
    }
}
