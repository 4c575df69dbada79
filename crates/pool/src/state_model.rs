//! Every interleaving of starting, ending and forgetting one task.
//!
//! What must hold: a task is run or ended by somebody else and never both; it is counted once, before its ticket is
//! told; what it is made of is dropped once; its result arrives whole or is dropped; its cell is freed once. The
//! values are boxed cells that the checker watches for races, and the schedule's count of references tells whether
//! a cell is left.

use crate::cell::Details;
use crate::counters::Ending;
use crate::error::{CancelAnswer, TaskError};
use crate::job;
use crate::model::{Parcel, explore};
use crate::sync::{UnsafeCell, thread};
use crate::ticket::Ticket;
use crate::token::{CancelToken, is_cancelled};
use crate::toy::{Toy, far_away};
use std::sync::Arc;

/// Counts its drops, and notices a second one.
struct Counted(Arc<()>);

fn counted() -> (Counted, Arc<()>) {
    let count = Arc::new(());
    (Counted(Arc::clone(&count)), count)
}

fn assert_dropped(count: &Arc<()>) {
    assert_eq!(Arc::strong_count(count), 1, "left behind, or dropped twice");
}

#[test]
fn a_closure_is_started_or_cancelled_and_never_both() {
    explore(3, || {
        let toy = Toy::new();
        let (parcel, (held, count)) = (Parcel::new(1), counted());
        let (job, ticket) = toy.closure(move || (parcel.open(), held).0);
        let worker = {
            let toy = toy.clone();
            thread::spawn(move || toy.run(job))
        };
        let answer = ticket.cancel();
        if answer == CancelAnswer::Cancelled {
            assert_dropped(&count);
        }
        let result = ticket.wait();
        assert_eq!(toy.endings().len(), 1, "who was told finds it counted");
        worker.join().unwrap();
        match (answer, result) {
            (CancelAnswer::Cancelled, Err(TaskError::Cancelled)) => {
                assert_eq!((toy.endings(), toy.left_in_queue()), (vec![Ending::Cancelled], 1));
            }
            (CancelAnswer::Requested | CancelAnswer::TooLate, Ok(1)) => {
                assert_eq!((toy.endings(), toy.left_in_queue()), (vec![Ending::Completed], 0));
            }
            (answer, result) => panic!("answered {answer:?}, then {result:?}"),
        }
        assert_dropped(&count);
        assert_eq!(toy.cells(), 0);
    });
}

#[test]
fn a_closure_is_discarded_or_run_by_whoever_waits_and_never_both() {
    explore(3, || {
        let toy = Toy::new();
        let (parcel, (held, count)) = (Parcel::new(1), counted());
        let (job, ticket) = toy.closure(move || (parcel.open(), held).0);
        let discarder = thread::spawn(move || drop(job));
        let result = toy.inside(|| ticket.wait());
        discarder.join().unwrap();
        let ending = if result.is_ok() { Ending::Completed } else { Ending::Cancelled };
        assert_eq!((toy.endings(), toy.left_in_queue()), (vec![ending], usize::from(result.is_ok())));
        assert_dropped(&count);
        assert_eq!(toy.cells(), 0);
    });
}

#[test]
fn a_closure_is_discarded_or_cancelled_once() {
    explore(3, || {
        let toy = Toy::new();
        let (held, count) = counted();
        let (job, ticket) = toy.closure(move || drop(held));
        let discarder = thread::spawn(move || drop(job));
        let cancelled = ticket.cancel() == CancelAnswer::Cancelled;
        discarder.join().unwrap();
        assert_eq!((toy.endings(), toy.left_in_queue()), (vec![Ending::Cancelled], usize::from(cancelled)));
        assert_dropped(&count);
        assert!(matches!(ticket.wait(), Err(TaskError::Cancelled)));
        assert_eq!(toy.cells(), 0);
    });
}

#[test]
fn a_closure_is_run_by_its_worker_or_by_whoever_waits_and_never_by_both() {
    explore(3, || {
        let toy = Toy::new();
        let (parcel, (held, count)) = (Parcel::new(1), counted());
        let (job, ticket) = toy.closure(move || (parcel.open(), held).0);
        let worker = {
            let toy = toy.clone();
            thread::spawn(move || toy.run(job))
        };
        assert_eq!(toy.inside(|| ticket.wait()).unwrap(), 1);
        worker.join().unwrap();
        assert_dropped(&count);
        assert_eq!((toy.endings(), toy.cells()), (vec![Ending::Completed], 0));
    });
}

#[test]
fn what_the_canceller_did_before_is_seen_by_the_task_that_notices() {
    explore(3, || {
        let toy = Toy::new();
        let note = Note::new();
        let (job, ticket) = {
            let note = Arc::clone(&note);
            toy.closure(move || is_cancelled().then(|| note.read()))
        };
        let worker = {
            let toy = toy.clone();
            thread::spawn(move || toy.run(job))
        };
        note.write(5);
        let answer = ticket.cancel();
        worker.join().unwrap();
        match ticket.wait() {
            Ok(Some(seen)) => assert_eq!((seen, answer), (5, CancelAnswer::Requested)),
            Ok(None) => assert_ne!(answer, CancelAnswer::Cancelled),
            Err(error) => assert!(matches!((error, answer), (TaskError::Cancelled, CancelAnswer::Cancelled))),
        }
    });
}

/// Something that the checker sees being written and read.
struct Note(UnsafeCell<u32>);

// SAFETY: that nobody reads it while it is written is what the checker verifies.
unsafe impl Send for Note {}
// SAFETY: as above, the models are about just that.
unsafe impl Sync for Note {}

impl Note {
    fn new() -> Arc<Self> {
        Arc::new(Self(UnsafeCell::new(0)))
    }

    fn write(&self, number: u32) {
        // SAFETY: the checker calls it a race if anybody else touches the cell meanwhile.
        self.0.with_mut(|cell| unsafe { *cell = number });
    }

    fn read(&self) -> u32 {
        // SAFETY: the checker calls it a race if anybody writes the cell meanwhile.
        self.0.with(|cell| unsafe { *cell })
    }
}

#[test]
fn a_closure_is_started_or_expired_and_a_running_one_is_overtaken() {
    explore(3, || {
        let toy = Toy::new();
        let (parcel, (held, count)) = (Parcel::new(1), counted());
        let (job, ticket) = toy.closure_due(far_away(), move || (parcel.open(), held).0);
        let task = job.to_watch().unwrap();
        let worker = {
            let toy = toy.clone();
            thread::spawn(move || toy.run(job))
        };
        task.deadline_passed();
        drop(task);
        let result = ticket.wait();
        let ends = toy.endings();
        worker.join().unwrap();
        assert_eq!(toy.endings(), ends, "who was told finds it counted, once");
        match result {
            Ok(1) => assert_eq!(ends, [Ending::Completed]),
            Err(TaskError::TimedOut) => assert_eq!(ends, [Ending::TimedOut]),
            Err(TaskError::Expired) => assert_eq!((ends, toy.left_in_queue()), (vec![Ending::Expired], 1)),
            other => panic!("ended as {other:?}"),
        }
        assert_dropped(&count);
        assert_eq!(toy.cells(), 0);
    });
}

#[test]
fn a_late_result_is_dropped_by_whoever_brings_it() {
    explore(3, || {
        let toy = Toy::new();
        let (result, count) = counted();
        let (job, ticket) = toy.closure_due(far_away(), move || result);
        let task = job.to_watch().unwrap();
        let worker = {
            let toy = toy.clone();
            thread::spawn(move || toy.run(job))
        };
        task.deadline_passed();
        drop((task, ticket));
        worker.join().unwrap();
        assert_dropped(&count);
        assert_eq!((toy.endings().len(), toy.cells()), (1, 0));
    });
}

#[test]
fn a_task_that_ends_while_it_is_being_watched_is_forgotten() {
    explore(3, || {
        let toy = Toy::with_deadlines();
        let (job, ticket) = toy.closure_due(far_away(), || 1);
        let task = job.to_watch().unwrap();
        let worker = {
            let toy = toy.clone();
            thread::spawn(move || toy.run(job))
        };
        task.watch();
        drop(task);
        worker.join().unwrap();
        assert_eq!(toy.watched(), 0, "an entry of what has ended stays until its deadline");
        assert_eq!(ticket.wait().unwrap(), 1);
        assert_eq!(toy.cells(), 0);
    });
}

#[test]
fn a_cell_is_freed_once_by_its_last_reference() {
    explore(2, || {
        let toy = Toy::new();
        let note = Note::new();
        let (job, ticket) = {
            let note = Arc::clone(&note);
            toy.closure(move || (CancelToken::current(), Written(note)))
        };
        toy.run(job);
        let (token, written) = ticket.wait().unwrap();
        let others = [token.clone(), token].map(|token| thread::spawn(move || drop(token)));
        drop(written);
        for other in others {
            other.join().unwrap();
        }
        assert_eq!(note.read(), 1);
        assert_eq!(toy.cells(), 0);
    });
}

/// Writes its note when it is dropped.
struct Written(Arc<Note>);

impl Drop for Written {
    fn drop(&mut self) {
        self.0.write(1);
    }
}

#[test]
fn a_refused_job_is_taken_apart_by_its_owner() {
    explore(2, || {
        fn back<F: FnOnce() -> u32 + Send + 'static>(toy: &Toy, closure: F) -> F {
            let (job, claim) = job::closure(toy.clone(), Details::default(), closure);
            let leaver = thread::spawn(move || drop(Ticket::new(claim)));
            let closure = job.into_closure::<Toy, F, u32>();
            leaver.join().unwrap();
            closure
        }
        let toy = Toy::new();
        let parcel = Parcel::new(3);
        let closure = back(&toy, move || parcel.open());
        assert_eq!((closure(), toy.endings().len(), toy.cells()), (3, 0, 0));
    });
}
