//! Models of an heir: a task is either in the place of the one before, whole, or handed back to its submitter.
//!
//! The task opens a parcel when it runs, so that bytes that did not travel with it are reported as a race.

use crate::heir::Heir;
use crate::model::{Parcel, explore};
use crate::sync::{Arc, AtomicU32, Ordering::Relaxed, thread};
use crate::task::{Plain, Task};

#[test]
fn an_heir_is_run_by_whoever_takes_the_entry_out_or_handed_back() {
    explore(3, || {
        let heir = Arc::new(Heir::new());
        let ran = Arc::new(AtomicU32::new(0));
        let (appointed, runs) = (Arc::clone(&heir), Arc::clone(&ran));
        let submitter = thread::spawn(move || {
            let parcel = Parcel::new(7);
            let task = Task::new(Plain(move || {
                runs.fetch_add(parcel.open(), Relaxed);
            }));
            match appointed.appoint(task) {
                Ok(()) => true,
                Err(task) => {
                    drop(task);
                    false
                }
            }
        });
        let taken = heir.leave();
        let was_there = taken.is_some();
        if let Some(task) = taken {
            task.run();
        }
        let appointed = submitter.join().unwrap();
        assert_eq!(appointed, was_there, "the one word decides");
        assert_eq!(ran.load(Relaxed), if was_there { 7 } else { 0 });
        assert!(heir.is_gone());
    });
}

#[test]
fn an_heir_is_withdrawn_or_leaves_with_its_entry_and_never_both() {
    explore(3, || {
        let heir = Arc::new(Heir::new());
        let parcel = Parcel::new(7);
        let task = Task::new(Plain(move || assert_eq!(parcel.open(), 7)));
        assert!(heir.appoint(task).is_ok());
        let entry = Arc::clone(&heir);
        let worker = thread::spawn(move || entry.leave().map(Task::run).is_some());
        let withdrawn = heir.withdraw().map(Task::run).is_some();
        let left = worker.join().unwrap();
        assert_ne!(withdrawn, left, "one of the two has it");
        assert!(heir.appoint(Task::new(Plain(|| ()))).is_err(), "the entry is gone");
    });
}
