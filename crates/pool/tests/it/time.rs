//! Deadlines and time-outs: waiting in the queue counts, and a ticket is told when its time is up and not later.
//!
//! No test asserts how long anything took. Times are either so short that they must pass, or so long that they
//! cannot; what is checked is who was told what, and in which order things became true.

use crate::busy::{Busy, pool, start};
use crate::eventually::{eventually, promptly};
use crate::futures::Door;
use crate::witness::Witnesses;
use millpond::{CancelAnswer, PoolConfig, SubmitError, TaskError, TaskOptions, is_cancelled, yield_now};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

const SHORT: Duration = Duration::from_millis(5);
const LONG: Duration = Duration::from_secs(3600);

fn timeout(timeout: Duration) -> TaskOptions {
    TaskOptions { timeout: Some(timeout), ..TaskOptions::default() }
}

#[test]
fn a_task_that_waits_past_its_deadline_is_told_while_every_worker_is_busy() {
    promptly("the ticket is told although no worker comes", || {
        let (pool, witnesses) = (pool(1), Witnesses::default());
        let busy = Busy::one(&pool);
        let witness = witnesses.one();
        let ticket = pool.with(&timeout(SHORT)).submit(move || drop(witness)).unwrap();
        assert!(matches!(ticket.wait(), Err(TaskError::Expired)));
        assert_eq!(witnesses.left(), 0, "what it held is free as well");
        assert_eq!(pool.metrics().expired, 1);
        busy.release();
        pool.submit(|| ()).unwrap().wait().unwrap();
        assert_eq!((pool.metrics().expired, pool.metrics().completed), (1, 2), "and is counted once");
    });
}

#[test]
fn a_deadline_at_an_instant_holds_as_a_timeout_does_and_the_earlier_of_both() {
    promptly("the tickets are told", || {
        let pool = pool(1);
        let busy = Busy::one(&pool);
        let soon = || Some(Instant::now() + SHORT);
        let at = TaskOptions { deadline: soon(), ..TaskOptions::default() };
        assert!(matches!(pool.with(&at).submit(|| ()).unwrap().wait(), Err(TaskError::Expired)));
        let both = TaskOptions { deadline: soon(), timeout: Some(LONG), ..TaskOptions::default() };
        assert!(matches!(pool.with(&both).submit(|| ()).unwrap().wait(), Err(TaskError::Expired)));
        let both = TaskOptions { deadline: Some(Instant::now() + LONG), ..timeout(SHORT) };
        assert!(matches!(pool.with(&both).submit(|| ()).unwrap().wait(), Err(TaskError::Expired)));
        busy.release();
    });
}

#[test]
fn a_running_closure_past_its_deadline_is_told_at_once_and_asked_to_stop() {
    promptly("the ticket is told while the closure still runs", || {
        let (pool, witnesses) = (pool(1), Witnesses::default());
        let (go_on, told) = mpsc::channel::<()>();
        let told = Arc::new(Mutex::new(told));
        // On a machine that is very busy it may not begin in time; then it gets more time.
        let (ticket, expired) = (0..)
            .find_map(|attempt| {
                let ((late, tells), witness, told) = (mpsc::channel(), witnesses.one(), Arc::clone(&told));
                let submitted = pool.with(&timeout(SHORT * (1 << attempt))).submit(move || {
                    eventually("it is asked to stop", is_cancelled);
                    late.send(()).unwrap();
                    let _ = told.lock().unwrap().recv();
                    witness
                });
                let ticket = submitted.unwrap();
                tells.recv().ok().map(|()| (ticket, attempt))
            })
            .unwrap();
        assert!(matches!(ticket.wait(), Err(TaskError::TimedOut)));
        assert_eq!((pool.metrics().timed_out, pool.metrics().expired), (1, expired));
        drop(go_on);
        eventually("the result that came too late is dropped", || witnesses.left() == 0);
        pool.submit(|| ()).unwrap().wait().unwrap();
        assert_eq!((pool.metrics().timed_out, pool.metrics().completed), (1, 1), "it is counted once");
    });
}

#[test]
fn a_spawned_closure_may_have_a_deadline_too() {
    promptly("the closure expires", || {
        let (pool, witnesses) = (pool(1), Witnesses::default());
        let busy = Busy::one(&pool);
        let witness = witnesses.one();
        pool.with(&timeout(SHORT)).spawn(move || drop(witness)).unwrap();
        eventually("it is dropped while every worker is busy", || witnesses.left() == 0);
        eventually("it is counted", || pool.metrics().expired == 1);
        busy.release();
    });
}

#[test]
fn a_future_that_waits_past_its_deadline_is_dropped_and_its_ticket_told() {
    promptly("the ticket is told", || {
        let (pool, door, witnesses) = (pool(1), Arc::new(Door::default()), Witnesses::default());
        let (waits, witness) = (Arc::clone(&door), witnesses.one());
        let ticket = pool.with(&timeout(Duration::from_millis(50))).spawn_async(async move {
            waits.pass().await;
            drop(witness);
        });
        let ticket = ticket.unwrap();
        let told = ticket.wait();
        assert_eq!(witnesses.left(), 0);
        // On a machine that is very busy it may not even have begun.
        assert!(matches!(told, Err(TaskError::TimedOut | TaskError::Expired)), "{told:?}");
        assert_eq!((pool.metrics().ended(), pool.metrics().futures_live), (1, 0));
        door.open();
    });
}

#[test]
fn a_future_that_never_stops_yielding_is_dropped_past_its_deadline() {
    promptly("the ticket is told", || {
        let (pool, witnesses) = (pool(1), Witnesses::default());
        let witness = witnesses.one();
        let ticket = pool.with(&timeout(Duration::from_millis(50))).spawn_async(async move {
            let _witness = witness;
            loop {
                yield_now().await;
            }
        });
        let told: Result<(), _> = ticket.unwrap().wait();
        assert!(matches!(told, Err(TaskError::TimedOut | TaskError::Expired)), "{told:?}");
        assert_eq!(witnesses.left(), 0);
        assert_eq!(pool.submit(|| 1).unwrap().wait().unwrap(), 1, "the worker is free again");
    });
}

#[test]
fn a_task_that_is_done_in_time_is_not_troubled() {
    let pool = pool(2);
    let options = timeout(LONG);
    for number in 0..1000 {
        assert_eq!(pool.with(&options).submit(move || number).unwrap().wait().unwrap(), number);
        let future = async move {
            yield_now().await;
            assert!(!is_cancelled());
            number
        };
        assert_eq!(pool.with(&options).spawn_async(future).unwrap().wait().unwrap(), number);
    }
    assert_eq!(pool.metrics().completed, 2000);
}

#[test]
fn what_a_timed_task_held_is_free_when_it_is_over_and_not_at_its_deadline() {
    let (pool, witnesses) = (pool(1), Witnesses::default());
    let witness = witnesses.one();
    let ticket = pool.with(&timeout(LONG)).submit(move || witness).unwrap();
    drop(ticket.wait());
    assert_eq!(witnesses.left(), 0);
    let busy = Busy::one(&pool);
    let witness = witnesses.one();
    let ticket = pool.with(&timeout(LONG)).submit(move || drop(witness)).unwrap();
    assert_eq!(ticket.cancel(), CancelAnswer::Cancelled);
    assert_eq!(witnesses.left(), 0);
    busy.release();
}

#[test]
fn the_earliest_deadline_is_told_first_whichever_was_set_first() {
    promptly("all are told", || {
        let pool = start(PoolConfig { workers: 1, queue_capacity: 4096, ..PoolConfig::default() });
        let busy = Busy::one(&pool);
        let order = Arc::new(Mutex::new(Vec::new()));
        let first = Instant::now() + Duration::from_millis(300);
        for number in (0..500_u32).rev() {
            let deadline = Some(first + Duration::from_micros(50) * number);
            let options = TaskOptions { deadline, ..TaskOptions::default() };
            let told = Arc::clone(&order);
            pool.with(&options).submit(|| ()).unwrap().on_done(move |result| {
                assert!(matches!(result, Err(TaskError::Expired)));
                told.lock().unwrap().push(number);
            });
        }
        let all_set_in_time = Instant::now() < first;
        eventually("all are told", || order.lock().unwrap().len() == 500);
        // A machine that took longer than that to set them cannot say anything about their order.
        assert!(!all_set_in_time || order.lock().unwrap().is_sorted(), "{order:?}");
        busy.release();
    });
}

#[test]
fn a_task_that_could_not_be_done_in_time_is_not_begun() {
    promptly("the task is given up", || {
        let pool = pool(1);
        let busy = Busy::one(&pool);
        let slack = Duration::from_millis(20);
        let options =
            TaskOptions { timeout: Some(LONG + slack), expected: Some(LONG), ..TaskOptions::default() };
        let (begun, submitted) = (Arc::new(AtomicBool::new(false)), Instant::now());
        let told = Arc::clone(&begun);
        let ticket = pool.with(&options).submit(move || told.store(true, Relaxed)).unwrap();
        eventually("the slack is used up", || submitted.elapsed() > slack);
        busy.release();
        assert!(matches!(ticket.wait(), Err(TaskError::Expired)));
        assert!(!begun.load(Relaxed));
    });
}

#[test]
fn a_deadline_that_races_with_the_end_of_its_task_is_decided_once() {
    promptly("every race is decided", || {
        let pool = pool(2);
        let (mut in_time, mut late) = (0, 0);
        let runs = Arc::new(AtomicUsize::new(0));
        for round in 0..3000_u64 {
            let told = Arc::clone(&runs);
            let options = timeout(Duration::from_micros(20 + round % 100));
            let submitted = pool.with(&options).submit(move || {
                (0..round % 64 * 16).for_each(|_| std::hint::spin_loop());
                told.fetch_add(1, Relaxed);
            });
            match submitted.map(|ticket| ticket.wait()) {
                Ok(Ok(())) => in_time += 1,
                Ok(Err(TaskError::Expired | TaskError::TimedOut)) => late += 1,
                Ok(Err(other)) => panic!("{other:?}"),
                Err(refused) => assert!(matches!(refused, SubmitError::TooLate(_))),
            }
        }
        let metrics = pool.metrics();
        assert_eq!((metrics.completed, metrics.expired + metrics.timed_out), (in_time, late));
        // Those that timed out may still run, but nothing else does.
        eventually("all who began have ended", || {
            runs.load(Relaxed) as u64 == in_time + pool.metrics().timed_out
        });
    });
}

#[test]
fn a_timeout_past_the_end_of_the_clock_is_none() {
    let pool = pool(1);
    assert_eq!(pool.with(&timeout(Duration::MAX)).submit(|| 1).unwrap().wait().unwrap(), 1);
}

#[test]
fn a_pool_with_deadlines_to_come_ends_at_once() {
    promptly("the pool ends", || {
        let pool = pool(1);
        let busy = Busy::one(&pool);
        let tickets: Vec<_> = (0..100).map(|_| pool.with(&timeout(LONG)).submit(|| ()).unwrap()).collect();
        let ending = thread::spawn(move || drop(pool));
        assert!(tickets.into_iter().all(|ticket| matches!(ticket.wait(), Err(TaskError::Cancelled))));
        busy.release();
        ending.join().unwrap();
    });
}
