//! Who is told of a batch, and how: by a call, by an inbox, or by a thread that waits. Each is told once, of every
//! record.
//!
//! After calls the writer lets those who were called come again before it syncs (`gather.rs`). That must delay nobody
//! for ever: not a submitter without room, not a snapshot, not the end.

use crate::house::{House, KIND, LONG, add, open, payload, put};
use millpond_journal::{Inbox, Journal, JournalConfig, Record};
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;

/// So many records through an inbox, some of them under way at any time; gives the numbers as they were told.
fn through_an_inbox(journal: &Journal, under_way: u64, records: u64) -> Vec<u64> {
    let inbox = Arc::new(Inbox::new());
    let (mut next, mut told, mut notes) = (0, Vec::new(), Vec::new());
    while told.len() < records as usize {
        while next < records && next - (told.len() as u64) < under_way {
            put(journal, next).unwrap().deliver(&inbox, next);
            next += 1;
        }
        inbox.take_timeout(&mut notes, LONG);
        assert!(!notes.is_empty(), "{} of {records} were told", told.len());
        for (number, outcome) in notes.drain(..) {
            outcome.unwrap();
            told.push(number);
        }
    }
    assert!(inbox.is_empty());
    told
}

#[test]
fn an_inbox_has_every_record_once_and_in_order() {
    let house = House::new("inbox");
    let (journal, _, _) = open(house.config()).unwrap();
    let numbers: Vec<u64> = (0..300).collect();
    assert_eq!(through_an_inbox(&journal, 8, 300), numbers);
    drop(journal);
    assert_eq!(open(house.config()).unwrap().1, numbers);
}

#[test]
fn whoever_comes_after_the_sync_is_told_at_once() {
    let house = House::new("late");
    let (journal, _, _) = open(house.config()).unwrap();
    let receipt = put(&journal, 1).unwrap();
    receipt.wait_timeout(LONG).unwrap().unwrap();
    let inbox = Arc::new(Inbox::new());
    receipt.deliver(&inbox, "late");
    let mut notes = Vec::new();
    inbox.take_timeout(&mut notes, LONG);
    assert_eq!(notes, [("late", Ok(()))]);
}

#[test]
fn several_inboxes_calls_and_threads_share_a_batch() {
    let house = House::new("shared");
    let (journal, _, _) = open(house.config()).unwrap();
    let (first, second) = (Arc::new(Inbox::new()), Arc::new(Inbox::new()));
    let (sender, called) = mpsc::channel();
    for number in 0..100 {
        let receipt = put(&journal, number).unwrap();
        match number % 4 {
            0 => receipt.deliver(&first, number),
            1 => receipt.deliver(&second, number),
            2 => {
                let sender = sender.clone();
                receipt.on_synced(move |outcome| sender.send((number, outcome)).unwrap());
            }
            _ => receipt.wait_timeout(LONG).unwrap().unwrap(),
        }
    }
    add(&journal, 100).unwrap();
    drop((sender, journal));
    let told = |inbox: &Inbox<u64>| {
        let mut notes = Vec::new();
        inbox.take_timeout(&mut notes, LONG);
        notes.into_iter().map(|(number, outcome)| outcome.map(|()| number).unwrap()).collect::<Vec<_>>()
    };
    let every_fourth = |from: u64| (from..100).step_by(4).collect::<Vec<_>>();
    assert_eq!((told(&first), told(&second)), (every_fourth(0), every_fourth(1)));
    let called: Vec<u64> = called.iter().map(|(number, outcome)| outcome.map(|()| number).unwrap()).collect();
    assert_eq!(called, every_fourth(2));
}

#[test]
fn a_batch_that_may_fill_holds_up_neither_submitters_without_room_nor_snapshots_nor_the_end() {
    let house = House::new("pressing");
    // Six under way through the inbox never fit a batch together with the others.
    let config = || JournalConfig { batch_records_max: 4, ..house.config() };
    let (journal, _, _) = open(config()).unwrap();
    thread::scope(|scope| {
        for submitter in 0..3 {
            let journal = &journal;
            scope.spawn(move || {
                (0..50).for_each(|turn| add(journal, 10_000 + submitter * 50 + turn).unwrap())
            });
        }
        scope.spawn(|| {
            for _ in 0..5 {
                let mut snapshot = journal.begin_snapshot().unwrap();
                snapshot.put(Record::new(KIND, 1_000_000, &payload(1_000_000))).unwrap();
                // What the records of the log are worth is not this test's question.
                drop(snapshot);
            }
        });
        assert_eq!(through_an_inbox(&journal, 6, 200).len(), 200);
    });
    // The last of them were told a moment ago, so the writer may be waiting for them to come again.
    drop(journal);
    let (_journal, mut numbers, _) = open(config()).unwrap();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..200).chain(10_000..10_150).collect::<Vec<_>>());
}
