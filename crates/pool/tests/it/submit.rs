//! How tasks are given to a pool: each runs once, or comes back to whoever offered it and still runs.
//!
//! A refusal that loses the task, or a limit that is off by one, would show only under load, where nobody looks.

use crate::busy::{Busy, pool, small_pool, start, thread_name};
use crate::eventually::{eventually, promptly};
use crate::witness::{Witnesses, add};
use millpond::{BatchError, Pool, PoolConfig, Priority, SubmitError, TaskOptions};
use std::cell::Cell;
use std::error::Error;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

#[test]
fn a_ticket_yields_what_its_closure_returns() {
    let pool = pool(2);
    let tickets: Vec<_> = (0..1000_u64).map(|number| pool.submit(move || number * number).unwrap()).collect();
    for (number, ticket) in (0..).zip(tickets) {
        assert_eq!(ticket.wait().unwrap(), number * number);
    }
}

#[test]
fn a_task_runs_on_a_worker_and_not_on_the_submitters_thread() {
    let pool = start(PoolConfig { workers: 2, name: "mill".to_owned(), ..PoolConfig::default() });
    assert!(pool.submit(thread_name).unwrap().wait().unwrap().starts_with("mill-"));
}

#[test]
fn every_spawned_closure_runs_once_whoever_spawns_it() {
    promptly("100 000 closures from four threads", || {
        let pool = pool(2);
        let ran: Arc<Vec<AtomicUsize>> = Arc::new((0..100_000).map(|_| AtomicUsize::new(0)).collect());
        thread::scope(|scope| {
            for part in 0..4 {
                let (pool, ran) = (pool.handle(), &ran);
                scope.spawn(move || {
                    for number in (part..ran.len()).step_by(4) {
                        let ran = Arc::clone(ran);
                        pool.spawn(move || add(&ran[number], 1)).unwrap();
                    }
                });
            }
        });
        assert!(pool.drain(Duration::MAX).is_finished());
        assert!(ran.iter().all(|count| count.load(Relaxed) == 1));
    });
}

#[test]
fn closures_of_any_size_and_alignment_run_and_are_dropped_once() {
    #[repr(align(64))]
    #[derive(Clone)]
    struct Aligned([u64; 8]);

    fn sum_of<const WORDS: usize>(pool: &millpond::PoolHandle, witnesses: &Witnesses) -> u64 {
        let (words, witness) = ([1_u64; WORDS], witnesses.one());
        let sum = Arc::new(AtomicUsize::new(0));
        let told = Arc::clone(&sum);
        pool.spawn(move || {
            let _witness = witness;
            told.store(words.iter().sum::<u64>() as usize + 1, Relaxed);
        })
        .unwrap();
        eventually("the closure ran", || sum.load(Relaxed) != 0);
        sum.load(Relaxed) as u64 - 1
    }
    let (pool, witnesses) = (pool(1), Witnesses::default());
    assert_eq!(sum_of::<0>(&pool, &witnesses), 0);
    assert_eq!(sum_of::<3>(&pool, &witnesses), 3);
    assert_eq!(sum_of::<4>(&pool, &witnesses), 4, "with two pointers this fills the slot");
    assert_eq!(sum_of::<5>(&pool, &witnesses), 5, "and this no longer fits");
    assert_eq!(sum_of::<1000>(&pool, &witnesses), 1000);
    let aligned = Aligned([7; 8]);
    let on_its_boundary = pool.submit(move || {
        let aligned = aligned;
        ((&raw const aligned).addr() % 64, aligned.0.iter().sum::<u64>())
    });
    assert_eq!(on_its_boundary.unwrap().wait().unwrap(), (0, 56));
    eventually("everything the closures held is dropped", || witnesses.left() == 0);
}

#[test]
fn a_full_pool_hands_the_task_back_and_it_still_runs() {
    let pool = small_pool(1, 2);
    let _busy = Busy::one(&pool);
    pool.spawn(|| ()).unwrap();
    pool.spawn(|| ()).unwrap();
    let refused = pool.try_submit(|| "still here").unwrap_err();
    assert!(matches!(refused, SubmitError::Full(_)));
    assert_eq!(refused.into_inner()(), "still here");
    let ran = Arc::new(AtomicUsize::new(0));
    let told = Arc::clone(&ran);
    let refused = pool.try_spawn(move || told.store(1, Relaxed)).unwrap_err();
    assert!(matches!(refused, SubmitError::Full(_)));
    refused.into_inner()();
    assert_eq!(ran.load(Relaxed), 1);
}

#[test]
fn a_full_pool_hands_large_named_and_timed_tasks_back_as_well() {
    let pool = small_pool(1, 1);
    let _busy = Busy::one(&pool);
    pool.spawn(|| ()).unwrap();
    let numbers = [3_u64; 100];
    let large = pool.try_spawn(move || assert_eq!(numbers.len(), 100)).unwrap_err();
    large.into_inner()();
    let options = TaskOptions {
        name: Some("named".into()),
        timeout: Some(Duration::from_secs(3600)),
        ..TaskOptions::default()
    };
    let named = pool.with(&options).try_submit(move || numbers.iter().sum::<u64>()).unwrap_err();
    assert_eq!(named.into_inner()(), 300);
    let spawned = pool.with(&options).try_spawn(|| ()).unwrap_err();
    spawned.into_inner()();
    assert_eq!(pool.metrics().ended(), 0, "what was refused was never a task");
}

#[test]
fn each_lane_holds_exactly_queue_capacity_tasks() {
    let pool = small_pool(1, 3);
    let _busy = Busy::one(&pool);
    for priority in Priority::ALL {
        let options = TaskOptions { priority, ..TaskOptions::default() };
        for _ in 0..3 {
            pool.with(&options).try_spawn(|| ()).unwrap();
        }
        assert!(matches!(pool.with(&options).try_spawn(|| ()), Err(SubmitError::Full(_))), "{priority:?}");
    }
    assert_eq!(pool.metrics().tasks_waiting, 9);
}

#[test]
fn submit_waits_for_room_and_try_submit_does_not() {
    promptly("the submitter gets its room", || {
        let pool = small_pool(1, 1);
        let busy = Busy::one(&pool);
        pool.spawn(|| ()).unwrap();
        let handle = pool.handle();
        let submitter = thread::spawn(move || handle.submit(|| 7).unwrap().wait().unwrap());
        assert!(pool.try_submit(|| ()).is_err());
        busy.release();
        assert_eq!(submitter.join().unwrap(), 7);
    });
}

#[test]
fn a_submitter_waits_at_most_as_long_as_it_said() {
    let pool = small_pool(1, 1);
    let _busy = Busy::one(&pool);
    pool.spawn(|| ()).unwrap();
    let refused = pool.submit_timeout(|| 3, Duration::from_millis(5)).unwrap_err();
    assert!(matches!(refused, SubmitError::TimedOut(_)), "{refused}");
    assert_eq!(refused.into_inner()(), 3);
    assert!(matches!(pool.submit_timeout(|| 3, Duration::ZERO), Err(SubmitError::TimedOut(_))));
}

#[test]
fn a_submitter_that_waits_with_a_limit_gets_room_when_there_is_some() {
    promptly("the submitter gets its room", || {
        let pool = small_pool(1, 1);
        let busy = Busy::one(&pool);
        pool.spawn(|| ()).unwrap();
        let handle = pool.handle();
        let submitter =
            thread::spawn(move || handle.submit_timeout(|| 7, Duration::MAX).unwrap().wait().unwrap());
        busy.release();
        assert_eq!(submitter.join().unwrap(), 7);
    });
}

#[test]
fn submitters_that_wait_for_room_get_their_tasks_back_when_the_pool_ends() {
    promptly("every submitter is told", || {
        let pool = small_pool(1, 1);
        let busy = Busy::one(&pool);
        pool.spawn(|| ()).unwrap();
        let submitters: Vec<_> = (0..8)
            .map(|number| {
                let handle = pool.handle();
                thread::spawn(move || match handle.submit(move || number) {
                    Err(SubmitError::Closed(task)) => task(),
                    other => panic!("expected Closed, got {other:?}"),
                })
            })
            .collect();
        let ending = thread::spawn(move || drop(pool));
        let answers: Vec<usize> = submitters.into_iter().map(|submitter| submitter.join().unwrap()).collect();
        assert_eq!(answers, [0, 1, 2, 3, 4, 5, 6, 7]);
        busy.release();
        ending.join().unwrap();
    });
}

#[test]
fn tasks_of_one_lane_begin_in_the_order_of_their_submission() {
    let pool = pool(1);
    let busy = Busy::one(&pool);
    let order = Arc::new(Mutex::new(Vec::new()));
    for number in 0..500 {
        let order = Arc::clone(&order);
        pool.spawn(move || order.lock().unwrap().push(number)).unwrap();
    }
    busy.release();
    assert!(pool.drain(Duration::MAX).is_finished());
    assert_eq!(*order.lock().unwrap(), (0..500).collect::<Vec<_>>());
}

#[test]
fn tasks_submitted_by_one_task_begin_in_the_order_of_their_submission() {
    let pool = pool(1);
    let (handle, order) = (pool.handle(), Arc::new(Mutex::new(Vec::new())));
    let told = Arc::clone(&order);
    let submits = pool.submit(move || {
        for number in 0..500 {
            let order = Arc::clone(&told);
            handle.spawn(move || order.lock().unwrap().push(number)).unwrap();
        }
    });
    submits.unwrap().wait().unwrap();
    assert!(pool.drain(Duration::MAX).is_finished());
    assert_eq!(*order.lock().unwrap(), (0..500).collect::<Vec<_>>());
}

#[test]
fn a_batch_yields_its_tickets_in_order_also_if_it_is_larger_than_the_queue() {
    promptly("the batch gets through", || {
        let pool = small_pool(1, 4);
        let tickets = pool.submit_batch((0..100).map(|number| move || number)).unwrap();
        let results: Vec<_> = tickets.into_iter().map(|ticket| ticket.wait().unwrap()).collect();
        assert_eq!(results, (0..100).collect::<Vec<_>>());
        assert!(pool.submit_batch(std::iter::empty::<fn()>()).unwrap().is_empty());
    });
}

#[test]
fn a_batch_that_is_refused_says_what_was_taken_in_and_hands_back_the_rest() {
    let pool = pool(1);
    let tasks = (0..10).map(|number| {
        if number == 4 {
            assert!(pool.drain(Duration::MAX).is_finished());
        }
        move || number
    });
    let error = pool.submit_batch(tasks).unwrap_err();
    assert_eq!(error.to_string(), "batch: 4 taken in, then: pool is closed; it takes nothing more");
    assert_eq!(format!("{error:?}"), "BatchError { accepted: 4, refused: Closed(..), .. }");
    let taken_in: Vec<i32> = error.accepted.into_iter().map(|ticket| ticket.wait().unwrap()).collect();
    assert_eq!(taken_in, [0, 1, 2, 3]);
    assert_eq!(error.refused.into_inner()(), 4);
    assert_eq!(error.rest.map(|task| task()).collect::<Vec<_>>(), [5, 6, 7, 8, 9]);
}

#[test]
fn an_endless_batch_that_is_refused_comes_back_with_the_tickets_of_what_was_taken_in() {
    promptly("the batch is refused", || {
        let pool = pool(1);
        let tasks = (0..).map(|number| {
            if number == 2 {
                assert!(pool.drain(Duration::MAX).is_finished());
            }
            move || number
        });
        let mut error = pool.submit_batch(tasks).unwrap_err();
        assert_eq!(error.accepted.into_iter().map(|ticket| ticket.wait().unwrap()).sum::<u64>(), 1);
        assert_eq!(error.refused.into_inner()(), 2);
        assert_eq!(error.rest.next().unwrap()(), 3, "the iterator goes on where it stood");
    });
}

#[test]
fn the_error_of_a_batch_goes_anywhere_without_its_tasks() {
    fn submit(pool: &Pool) -> Result<(), Box<dyn Error + Send + Sync>> {
        // The iterator borrows, and what the tasks hold is not `Sync`.
        let numbers = [1, 2, 3];
        let tasks = numbers.iter().map(|&number| {
            let held = Cell::new(number);
            move || held.get()
        });
        pool.submit_batch(tasks).map_err(BatchError::forget)?;
        Ok(())
    }
    let pool = pool(1);
    submit(&pool).unwrap();
    assert!(pool.drain(Duration::MAX).is_finished());
    let error = submit(&pool).unwrap_err();
    assert_eq!(error.to_string(), "batch: 0 taken in, then: pool is closed; it takes nothing more");
}

#[test]
fn a_handle_outlives_its_pool_and_is_refused_everything() {
    let pool = pool(1);
    let handle = pool.handle();
    drop(pool);
    assert!(matches!(handle.submit(|| 1), Err(SubmitError::Closed(_))));
    assert!(matches!(handle.try_submit(|| 1), Err(SubmitError::Closed(_))));
    assert!(matches!(handle.submit_timeout(|| 1, Duration::MAX), Err(SubmitError::Closed(_))));
    assert!(matches!(handle.spawn(|| ()), Err(SubmitError::Closed(_))));
    assert!(matches!(handle.try_spawn(|| ()), Err(SubmitError::Closed(_))));
    let Err(SubmitError::Closed(future)) = handle.spawn_async(async { 5 }) else { panic!("expected Closed") };
    assert_eq!(millpond::block_on(future), 5, "a future comes back as well");
    let key = TaskOptions { affinity: Some(1), ..TaskOptions::default() };
    assert!(matches!(handle.with(&key).submit(|| 1), Err(SubmitError::Closed(_))));
    assert_eq!(handle.metrics().ended(), 0);
}
