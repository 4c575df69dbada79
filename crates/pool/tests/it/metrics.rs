//! The numbers a pool tells: at rest they add up to the last task, and each one counts what it says.
//!
//! Counters that are nearly right are worse than none. So these tests bring a pool to rest and compare for equality.

use crate::busy::{Busy, pool, small_pool, start, until_asleep};
use crate::eventually::{eventually, promptly};
use crate::futures::Door;
use millpond::{PoolConfig, Priority, TaskOptions};
use std::sync::{Arc, mpsc};
use std::time::Duration;

#[test]
fn a_new_pool_has_done_nothing_and_soon_sleeps() {
    let pool = pool(3);
    until_asleep(&pool);
    let metrics = pool.metrics();
    assert_eq!((metrics.workers_wanted, metrics.workers_running, metrics.workers_asleep), (3, 3, 3));
    assert_eq!((metrics.workers_searching, metrics.workers_standing_still), (0, 0));
    assert_eq!((metrics.tasks_waiting, metrics.futures_live, metrics.ended()), (0, 0, 0));
    assert_eq!((metrics.hooks_panicked, metrics.workers_unrelieved, metrics.workers.len()), (0, 0, 3));
}

#[test]
fn what_waits_runs_and_ended_adds_up_to_what_was_taken_in() {
    promptly("the pool comes to rest", || {
        let pool = pool(1);
        let busy = Busy::one(&pool);
        let soon = TaskOptions { timeout: Some(Duration::from_millis(1)), ..TaskOptions::default() };
        let expires = pool.with(&soon).submit(|| ()).unwrap();
        assert!(expires.wait().is_err());
        (0..5).for_each(|_| pool.spawn(|| ()).unwrap());
        (0..3).for_each(|_| pool.spawn(|| std::panic::resume_unwind(Box::new(1))).unwrap());
        let cancelled = pool.submit(|| ()).unwrap();
        cancelled.cancel();
        let metrics = pool.metrics();
        assert_eq!((metrics.expired, metrics.cancelled, metrics.ended()), (1, 1, 2));
        assert_eq!(metrics.tasks_waiting, 8, "those that have ended do not wait");
        busy.release();
        assert!(pool.drain(Duration::MAX).is_finished());
        let metrics = pool.metrics();
        assert_eq!((metrics.completed, metrics.panicked, metrics.cancelled), (6, 3, 1));
        assert_eq!((metrics.expired, metrics.timed_out, metrics.tasks_waiting), (1, 0, 0));
        assert_eq!(metrics.ended(), 11);
        let worker = metrics.workers[0];
        assert_eq!((worker.completed, worker.panicked, worker.tasks_waiting), (6, 3, 0));
    });
}

#[test]
fn each_lane_tells_how_much_waits_and_was_refused() {
    let pool = small_pool(1, 2);
    let _busy = Busy::one(&pool);
    for (priority, count) in Priority::ALL.into_iter().zip([0, 1, 3]) {
        let options = TaskOptions { priority, ..TaskOptions::default() };
        for _ in 0..count {
            let _ = pool.with(&options).try_spawn(|| ());
        }
    }
    let metrics = pool.metrics();
    assert_eq!(metrics.lanes.map(|lane| lane.len), [0, 1, 2]);
    assert_eq!(metrics.lanes.map(|lane| lane.capacity), [2, 2, 2]);
    assert_eq!(metrics.lanes.map(|lane| lane.rejected), [0, 0, 1]);
    assert_eq!(metrics.tasks_waiting, 3);
}

#[test]
fn stolen_tasks_are_counted_by_the_thief() {
    promptly("the tasks are stolen", || {
        let pool = pool(2);
        until_asleep(&pool);
        let (handle, (told, tells)) = (pool.handle(), mpsc::channel());
        let owner = pool.submit(move || {
            for number in 0..10 {
                let told = told.clone();
                handle.spawn(move || told.send(number).unwrap()).unwrap();
            }
            drop(told);
            // The owner does not return before the other worker has done them all.
            tells.iter().count()
        });
        assert_eq!(owner.unwrap().wait().unwrap(), 10);
        until_asleep(&pool);
        assert_eq!(pool.metrics().workers.iter().map(|worker| worker.stolen).sum::<u64>(), 10);
    });
}

#[test]
fn live_futures_are_counted_from_submit_to_end() {
    let (pool, door) = (pool(1), Arc::new(Door::default()));
    let busy = Busy::one(&pool);
    let waits = Arc::clone(&door);
    let ticket = pool.spawn_async(async move { waits.pass().await }).unwrap();
    assert_eq!((pool.metrics().futures_live, pool.metrics().tasks_waiting), (1, 1));
    busy.release();
    door.until_somebody_waits();
    eventually("it is suspended", || format!("{ticket:?}").contains("idle"));
    assert_eq!((pool.metrics().futures_live, pool.metrics().tasks_waiting), (1, 0));
    door.open();
    ticket.wait().unwrap();
    assert_eq!((pool.metrics().futures_live, pool.metrics().completed), (0, 2));
}

#[test]
fn numbers_outlive_the_pool() {
    let pool = pool(2);
    let handle = pool.handle();
    (0..100).for_each(|_| pool.submit(|| ()).unwrap().wait().unwrap());
    drop(pool);
    let metrics = handle.metrics();
    assert_eq!((metrics.completed, metrics.ended(), metrics.tasks_waiting), (100, 100, 0));
    assert_eq!((metrics.workers_running, metrics.workers_asleep), (0, 0), "nobody is left");
    assert_eq!(metrics.workers.iter().map(|worker| worker.completed).sum::<u64>(), 100);
}

#[test]
fn a_pool_shows_its_name_and_size() {
    let pool = start(PoolConfig { workers: 2, name: "mill".to_owned(), ..PoolConfig::default() });
    let shown = format!("{pool:?}");
    assert!(shown.contains("name: \"mill\"") && shown.contains("workers: 2"), "{shown}");
}
