//! The ways to come by a result: wait, wait for a while, poll, await, or be called; and what is told once it is gone.
//!
//! All of them end in the same place, and whoever asks last must not find what an earlier one took.

use crate::busy::{Busy, pool};
use crate::eventually::{eventually, promptly};
use crate::witness::Witnesses;
use millpond::{TaskError, TaskOptions, Ticket};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

/// Counts how often it was woken.
#[derive(Default)]
struct Bell(AtomicUsize);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

fn poll_with<T>(ticket: &mut Ticket<T>, bell: &Arc<Bell>) -> Poll<Result<T, TaskError>> {
    let waker = Waker::from(Arc::clone(bell));
    Pin::new(ticket).poll(&mut Context::from_waker(&waker))
}

#[test]
fn a_result_is_polled_when_it_is_there_and_not_before() {
    let pool = pool(1);
    let busy = Busy::one(&pool);
    let mut ticket = pool.submit(|| 5).unwrap();
    assert!(!ticket.is_done());
    assert!(ticket.poll().is_none());
    busy.release();
    eventually("the task ended", || ticket.is_done());
    assert_eq!(ticket.poll().unwrap().unwrap(), 5);
}

#[test]
fn a_wait_with_a_limit_gives_up_and_may_be_repeated() {
    let pool = pool(1);
    let busy = Busy::one(&pool);
    let mut ticket = pool.submit(|| 5).unwrap();
    assert!(ticket.wait_timeout(Duration::ZERO).is_none());
    assert!(ticket.wait_timeout(Duration::from_millis(2)).is_none());
    busy.release();
    assert_eq!(ticket.wait_timeout(Duration::MAX).unwrap().unwrap(), 5);
}

#[test]
fn a_result_is_taken_once_and_every_later_call_says_so() {
    let pool = pool(1);
    let mut ticket = pool.submit(|| 5).unwrap();
    assert_eq!(ticket.wait_timeout(Duration::MAX).unwrap().unwrap(), 5);
    assert!(ticket.is_done());
    assert!(matches!(ticket.poll(), Some(Err(TaskError::Taken))));
    assert!(matches!(ticket.wait_timeout(Duration::ZERO), Some(Err(TaskError::Taken))));
    assert!(matches!(poll_with(&mut ticket, &Arc::default()), Poll::Ready(Err(TaskError::Taken))));
    assert_eq!(format!("{ticket:?}"), "Ticket { state: taken }");
    assert!(matches!(ticket.wait(), Err(TaskError::Taken)));
}

#[test]
fn a_thread_that_sleeps_at_a_ticket_is_woken_by_its_result() {
    promptly("the sleeper wakes", || {
        let pool = pool(1);
        for number in 0..200 {
            let busy = Busy::one(&pool);
            let ticket = pool.submit(move || number).unwrap();
            let waiter = thread::spawn(move || ticket.wait().unwrap());
            busy.release();
            assert_eq!(waiter.join().unwrap(), number);
        }
    });
}

#[test]
fn a_ticket_is_a_future() {
    let pool = pool(1);
    let busy = Busy::one(&pool);
    let mut ticket = pool.submit(|| 5).unwrap();
    let bell = Arc::new(Bell::default());
    assert!(poll_with(&mut ticket, &bell).is_pending());
    assert_eq!(bell.0.load(Relaxed), 0);
    busy.release();
    eventually("the waker is woken", || bell.0.load(Relaxed) == 1);
    assert!(matches!(poll_with(&mut ticket, &bell), Poll::Ready(Ok(5))));
}

#[test]
fn only_the_last_waker_of_a_ticket_is_woken() {
    let pool = pool(1);
    let busy = Busy::one(&pool);
    let mut ticket = pool.submit(|| 5).unwrap();
    let (first, last) = (Arc::new(Bell::default()), Arc::new(Bell::default()));
    assert!(poll_with(&mut ticket, &first).is_pending());
    assert!(poll_with(&mut ticket, &last).is_pending());
    assert_eq!(Arc::strong_count(&first), 1, "the first waker is dropped at once");
    busy.release();
    eventually("the waker is woken", || last.0.load(Relaxed) == 1);
    assert_eq!(first.0.load(Relaxed), 0);
    assert_eq!(ticket.wait().unwrap(), 5);
}

#[test]
fn a_ticket_that_was_polled_may_be_waited_for() {
    promptly("the result comes", || {
        let pool = pool(1);
        let busy = Busy::one(&pool);
        let mut ticket = pool.submit(|| 5).unwrap();
        let bell = Arc::new(Bell::default());
        assert!(poll_with(&mut ticket, &bell).is_pending());
        assert!(ticket.wait_timeout(Duration::ZERO).is_none());
        let waiter = thread::spawn(move || ticket.wait().unwrap());
        busy.release();
        assert_eq!(waiter.join().unwrap(), 5);
        eventually("whoever was polled with is told all the same", || bell.0.load(Relaxed) == 1);
    });
}

#[test]
fn a_dropped_ticket_leaves_its_task_running_and_its_waker_dropped() {
    let (pool, witnesses) = (pool(1), Witnesses::default());
    let busy = Busy::one(&pool);
    let (told, tells) = mpsc::channel();
    let witness = witnesses.one();
    let mut ticket = pool
        .submit(move || {
            told.send(()).unwrap();
            witness
        })
        .unwrap();
    let bell = Arc::new(Bell::default());
    assert!(poll_with(&mut ticket, &bell).is_pending());
    drop(ticket);
    assert_eq!(Arc::strong_count(&bell), 1);
    busy.release();
    tells.recv().unwrap();
    eventually("the result nobody wants is dropped", || witnesses.left() == 0);
    assert_eq!(bell.0.load(Relaxed), 0);
}

#[test]
fn a_result_that_nobody_fetches_is_dropped_with_its_ticket() {
    let (pool, witnesses) = (pool(1), Witnesses::default());
    let witness = witnesses.one();
    let ticket = pool.submit(move || witness).unwrap();
    eventually("the task ended", || ticket.is_done());
    assert_eq!(witnesses.left(), 1);
    drop(ticket);
    assert_eq!(witnesses.left(), 0);
}

#[test]
fn a_ticket_keeps_its_result_when_the_pool_is_gone() {
    let pool = pool(1);
    let ticket = pool.submit(|| "kept").unwrap();
    eventually("the task ended", || ticket.is_done());
    drop(pool);
    assert_eq!(ticket.wait().unwrap(), "kept");
}

#[test]
fn a_callback_is_called_once_with_the_result_now_or_later() {
    let pool = pool(1);
    let (told, tells) = mpsc::channel();
    let now = pool.submit(|| 1).unwrap();
    eventually("the task ended", || now.is_done());
    let caller = thread::current().id();
    let tell = told.clone();
    now.on_done(move |result| tell.send((result.unwrap(), thread::current().id() == caller)).unwrap());
    assert_eq!(tells.try_recv().unwrap(), (1, true), "a result that is there is told at once");
    let busy = Busy::one(&pool);
    let later = pool.submit(|| 2).unwrap();
    later.on_done(move |result| told.send((result.unwrap(), thread::current().id() == caller)).unwrap());
    assert!(tells.try_recv().is_err());
    busy.release();
    assert_eq!(tells.recv().unwrap(), (2, false), "one that is not is told by whoever ends the task");
    assert!(tells.recv().is_err(), "and never again");
}

#[test]
fn callbacks_are_called_once_however_they_race_with_their_tasks() {
    promptly("every callback is called", || {
        let pool = pool(2);
        let called = Arc::new(AtomicUsize::new(0));
        for number in 0..20_000 {
            let told = Arc::clone(&called);
            let ticket = pool.submit(move || number).unwrap();
            ticket.on_done(move |result| {
                assert_eq!(result.unwrap(), number);
                told.fetch_add(1, Relaxed);
            });
        }
        eventually("all are called", || called.load(Relaxed) == 20_000);
    });
}

#[test]
fn a_callback_is_told_why_there_is_no_result() {
    let pool = pool(1);
    let busy = Busy::one(&pool);
    let (told, tells) = mpsc::channel();
    let never = pool.submit(|| ()).unwrap();
    never.on_done(move |result| told.send(result).unwrap());
    pool.purge();
    assert!(matches!(tells.recv().unwrap(), Err(TaskError::Cancelled)));
    busy.release();
}

#[test]
fn a_callback_may_submit_and_wait_for_other_tasks() {
    promptly("the callback gets its own result", || {
        let pool = pool(1);
        let (told, tells) = mpsc::channel();
        let (busy, handle) = (Busy::one(&pool), pool.handle());
        pool.submit(|| 1).unwrap().on_done(move |first| {
            let second = handle.submit(|| 2).unwrap().wait().unwrap();
            told.send(first.unwrap() + second).unwrap();
        });
        busy.release();
        assert_eq!(tells.recv().unwrap(), 3);
    });
}

#[test]
fn a_ticket_shows_its_name_and_how_far_its_task_is() {
    let pool = pool(1);
    let busy = Busy::one(&pool);
    let options = TaskOptions { name: Some("thumbnail 17".into()), ..TaskOptions::default() };
    let ticket = pool.with(&options).submit(|| ()).unwrap();
    assert_eq!(format!("{ticket:?}"), "Ticket { name: \"thumbnail 17\", state: queued }");
    busy.release();
    eventually("the task ended", || ticket.is_done());
    assert_eq!(format!("{ticket:?}"), "Ticket { name: \"thumbnail 17\", state: done }");
    assert_eq!(format!("{:?}", pool.submit(|| ()).unwrap()).split(' ').next(), Some("Ticket"));
}

#[test]
fn a_result_of_any_type_that_may_travel_comes_back_whole() {
    let pool = pool(2);
    let text: String = pool.submit(|| "x".repeat(100_000)).unwrap().wait().unwrap();
    assert_eq!(text.len(), 100_000);
    let array: [u64; 512] =
        pool.submit(|| std::array::from_fn(|place| place as u64)).unwrap().wait().unwrap();
    assert_eq!(array[511], 511);
    let cell: std::cell::Cell<u8> = pool.submit(|| std::cell::Cell::new(9)).unwrap().wait().unwrap();
    assert_eq!(cell.get(), 9, "a result need not be fit for sharing");
}
