//! Every interleaving of a task's end and its ticket: waiting, asking to be told, leaving.
//!
//! What must hold: whoever waits is told; the result arrives whole, or is dropped once; nobody is told of what the
//! ticket no longer wants; the waker is taken by one side only.

use crate::counters::Ending;
use crate::model::{Parcel, explore};
use crate::sync::thread;
use crate::toy::{Toy, far_away};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll, Wake, Waker};

/// Counts how often it is woken.
#[derive(Default)]
struct Bell(AtomicUsize);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

fn bell() -> (Arc<Bell>, Waker) {
    let bell = Arc::new(Bell::default());
    let waker = Waker::from(Arc::clone(&bell));
    (bell, waker)
}

#[test]
fn a_thread_that_waits_gets_the_result() {
    explore(3, || {
        let toy = Toy::new();
        let (job, ticket) = toy.closure(|| Parcel::new(7));
        let waiter = {
            let toy = toy.clone();
            thread::spawn(move || {
                let parcel = ticket.wait().unwrap();
                assert_eq!(toy.endings(), [Ending::Completed], "who was told finds it counted");
                parcel.open()
            })
        };
        toy.run(job);
        assert_eq!(waiter.join().unwrap(), 7);
        assert_eq!(toy.cells(), 0);
    });
}

#[test]
fn a_thread_that_waits_is_told_of_a_deadline() {
    explore(3, || {
        let toy = Toy::new();
        let (job, ticket) = toy.closure_due(far_away(), || Parcel::new(7));
        let task = job.to_watch().unwrap();
        let waiter = thread::spawn(move || ticket.wait().map(Parcel::open));
        task.deadline_passed();
        assert!(waiter.join().unwrap().is_err());
        drop((job, task));
        assert_eq!((toy.endings(), toy.cells()), (vec![Ending::Expired], 0));
    });
}

#[test]
fn a_result_nobody_wants_is_dropped_once() {
    explore(3, || {
        let toy = Toy::new();
        let count = Arc::new(());
        let (job, ticket) = {
            let result = Arc::clone(&count);
            toy.closure(move || (Parcel::new(1), result))
        };
        let leaver = thread::spawn(move || drop(ticket));
        toy.run(job);
        leaver.join().unwrap();
        assert_eq!(Arc::strong_count(&count), 1);
        assert_eq!((toy.endings(), toy.cells()), (vec![Ending::Completed], 0));
    });
}

#[test]
fn the_last_waker_that_was_left_is_woken_once() {
    explore(3, || {
        let toy = Toy::new();
        let (job, mut ticket) = toy.closure(|| Parcel::new(7));
        let worker = {
            let toy = toy.clone();
            thread::spawn(move || toy.run(job))
        };
        let bells = [bell(), bell()];
        let mut result = None;
        let mut last = None;
        for (bell, waker) in &bells {
            match Pin::new(&mut ticket).poll(&mut Context::from_waker(waker)) {
                Poll::Ready(ready) => {
                    result = Some(ready);
                    last = None;
                    break;
                }
                Poll::Pending => last = Some(bell),
            }
        }
        worker.join().unwrap();
        if let Some(last) = last {
            assert_eq!(last.0.load(Relaxed), 1, "who left its waker last is told");
        }
        assert!(bells.iter().map(|(bell, _)| bell.0.load(Relaxed)).sum::<usize>() <= 1, "told twice");
        let result = result.or_else(|| ticket.poll()).expect("the task has ended");
        assert_eq!(result.unwrap().open(), 7);
        assert!(bells.iter().all(|(bell, _)| Arc::strong_count(bell) == 2), "a waker was left behind");
        assert_eq!(toy.cells(), 0);
    });
}

#[test]
fn a_waker_left_while_the_task_is_closed_is_woken() {
    explore(3, || {
        let toy = Toy::new();
        let (bell, waker) = bell();
        let (job, mut ticket) = toy.closure(|| 1);
        let discarder = thread::spawn(move || drop(job));
        let waits = Pin::new(&mut ticket).poll(&mut Context::from_waker(&waker)).is_pending();
        discarder.join().unwrap();
        assert_eq!(bell.0.load(Relaxed), usize::from(waits));
        drop((ticket, waker));
        assert_eq!((Arc::strong_count(&bell), toy.cells()), (1, 0));
    });
}

#[test]
fn a_ticket_that_leaves_takes_its_waker_along() {
    explore(3, || {
        let toy = Toy::new();
        let (bell, waker) = bell();
        let (job, mut ticket) = toy.closure(|| 1);
        assert!(Pin::new(&mut ticket).poll(&mut Context::from_waker(&waker)).is_pending());
        drop(waker);
        let worker = {
            let toy = toy.clone();
            thread::spawn(move || toy.run(job))
        };
        drop(ticket);
        // A task is counted before it is done: as long as it is not, its end was still to come when the ticket left.
        if toy.endings().is_empty() {
            assert_eq!(Arc::strong_count(&bell), 1, "the waker was left behind");
        }
        worker.join().unwrap();
        assert_eq!(Arc::strong_count(&bell), 1);
        assert_eq!(toy.cells(), 0);
    });
}

#[test]
fn a_callback_is_called_once_with_the_result() {
    explore(3, || {
        let toy = Toy::new();
        let (job, ticket) = toy.closure(|| Parcel::new(7));
        let worker = {
            let toy = toy.clone();
            thread::spawn(move || toy.run(job))
        };
        let calls = Arc::new(AtomicUsize::new(0));
        let called = Arc::clone(&calls);
        ticket.on_done(move |result| {
            assert_eq!(result.unwrap().open(), 7);
            called.fetch_add(1, Relaxed);
        });
        worker.join().unwrap();
        assert_eq!((calls.load(Relaxed), Arc::strong_count(&calls), toy.cells()), (1, 1, 0));
    });
}
