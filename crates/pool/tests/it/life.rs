//! Pausing, purging, and what is left of a pool when it is gone: nothing.
//!
//! Not here: draining (`drain.rs`), stopping (`stop.rs`), the number of workers (`crew.rs`).

use crate::busy::{Busy, lone_worker, pool, small_pool, start, until_asleep};
use crate::eventually::{eventually, promptly};
use crate::futures::Door;
use crate::witness::{Witnesses, add};
use millpond::{Hook, PoolConfig, Priority, TaskError, TaskOptions};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

/// So long nothing may happen. If something should, it may be missed; if nothing does, nothing is reported.
const A_WHILE: Duration = Duration::from_millis(20);

#[test]
fn a_paused_pool_begins_nothing_until_it_is_resumed() {
    promptly("the tasks run after the pause", || {
        let (pool, begun) = (pool(2), Arc::new(AtomicUsize::new(0)));
        for round in 0..20 {
            until_asleep(&pool);
            pool.pause();
            for _ in 0..10 {
                let begun = Arc::clone(&begun);
                pool.spawn(move || add(&begun, 1)).unwrap();
            }
            thread::sleep(A_WHILE);
            assert_eq!(begun.load(Relaxed), round * 10, "nothing begins after `pause` has returned");
            assert_eq!(pool.metrics().tasks_waiting, 10);
            pool.resume();
            eventually("they run", || begun.load(Relaxed) == (round + 1) * 10);
        }
    });
}

#[test]
fn a_pool_that_is_paused_while_it_searches_begins_nothing_either() {
    promptly("the tasks run after the pause", || {
        let config = PoolConfig { workers: 2, spin: Duration::from_millis(2), ..PoolConfig::default() };
        let (pool, begun) = (start(config), Arc::new(AtomicUsize::new(0)));
        for round in 0..200 {
            // Whoever ran this searches for a while before it sleeps.
            pool.submit(|| ()).unwrap().wait().unwrap();
            pool.pause();
            let told = Arc::clone(&begun);
            pool.spawn(move || add(&told, 1)).unwrap();
            thread::sleep(Duration::from_micros(500));
            assert_eq!(begun.load(Relaxed), round, "nothing begins after `pause` has returned");
            pool.resume();
            eventually("it runs", || begun.load(Relaxed) == round + 1);
        }
    });
}

#[test]
fn a_worker_that_waits_without_a_stand_in_begins_nothing_during_a_pause_either() {
    promptly("the tasks run after the pause", || {
        let (pool, door) = (lone_worker(16), Arc::new(Door::default()));
        let (waits, begun) = (Arc::clone(&door), Arc::new(AtomicUsize::new(0)));
        let blocks = pool.submit(move || millpond::block_on(waits.pass())).unwrap();
        door.until_somebody_waits();
        pool.pause();
        let told = Arc::clone(&begun);
        let behind = pool.submit(move || add(&told, 1)).unwrap();
        thread::sleep(A_WHILE);
        assert_eq!(begun.load(Relaxed), 0, "nothing begins after `pause` has returned");
        door.open();
        blocks.wait().unwrap();
        pool.resume();
        behind.wait().unwrap();
    });
}

#[test]
fn a_worker_that_waits_for_a_task_of_a_paused_pool_does_not_run_it_by_itself() {
    promptly("the task runs after the pause", || {
        for pool in [lone_worker(16), pool(2)] {
            let (handle, begun) = (pool.handle(), Arc::new(AtomicUsize::new(0)));
            let told = Arc::clone(&begun);
            let ((runs, has_begun), (go, may_go)) = (mpsc::channel(), mpsc::channel());
            let waits = move || {
                runs.send(()).unwrap();
                may_go.recv().unwrap();
                handle.submit(move || add(&told, 1)).unwrap().wait().unwrap();
            };
            let waits = pool.submit(waits).unwrap();
            has_begun.recv().unwrap();
            pool.pause();
            go.send(()).unwrap();
            thread::sleep(A_WHILE);
            assert_eq!(begun.load(Relaxed), 0, "nothing begins after `pause` has returned");
            pool.resume();
            waits.wait().unwrap();
        }
    });
}

#[test]
fn what_runs_goes_on_while_the_pool_is_paused() {
    promptly("the running task ends", || {
        let pool = pool(2);
        let busy = Busy::one(&pool);
        pool.pause();
        pool.pause();
        busy.release();
        pool.resume();
        assert_eq!(pool.submit(|| 1).unwrap().wait().unwrap(), 1, "one resume ends any number of pauses");
        pool.resume();
    });
}

#[test]
fn a_task_may_pause_resize_and_resume_its_own_pool() {
    promptly("the pool goes on", || {
        let pool = Arc::new(pool(2));
        let inner = Arc::clone(&pool);
        let meddles = pool.submit(move || {
            for workers in [1, 4, 2] {
                inner.pause();
                let waits = inner.submit(|| 1).unwrap();
                inner.resize(workers).unwrap();
                assert_eq!(inner.purge().cancelled, 1);
                assert!(matches!(waits.wait(), Err(TaskError::Cancelled)));
                inner.resume();
            }
        });
        meddles.unwrap().wait().unwrap();
        assert_eq!(pool.submit(|| 7).unwrap().wait().unwrap(), 7);
    });
}

#[test]
fn many_may_pause_resize_and_resume_at_once() {
    promptly("the pool goes on", || {
        let (pool, ran) = (pool(2), Arc::new(AtomicUsize::new(0)));
        thread::scope(|scope| {
            for number in 0..3 {
                let (pool, ran) = (&pool, &ran);
                scope.spawn(move || {
                    for round in 0..200 {
                        pool.pause();
                        pool.resize(1 + (round + number) % 4).unwrap();
                        let ran = Arc::clone(ran);
                        pool.spawn(move || add(&ran, 1)).unwrap();
                        pool.resume();
                    }
                });
            }
        });
        // Whoever came last may have paused after another resumed, but each has resumed after its own pause.
        eventually("all tasks run", || ran.load(Relaxed) == 600);
    });
}

#[test]
fn a_paused_pool_takes_tasks_in_as_far_as_there_is_room() {
    let pool = small_pool(1, 2);
    until_asleep(&pool);
    pool.pause();
    let tickets = [pool.try_submit(|| 1).unwrap(), pool.try_submit(|| 2).unwrap()];
    assert!(pool.try_submit(|| 3).is_err());
    pool.resume();
    assert_eq!(tickets.map(|ticket| ticket.wait().unwrap()), [1, 2]);
}

#[test]
fn a_purge_cancels_everything_that_waits_and_says_so() {
    promptly("the tickets are told", || {
        let (pool, witnesses) = (pool(1), Witnesses::default());
        let busy = Busy::one(&pool);
        let mut tickets = Vec::new();
        for priority in Priority::ALL {
            for affinity in [None, Some(1), Some(2)] {
                let options = TaskOptions { priority, affinity, ..TaskOptions::default() };
                let (one, other, third) = (witnesses.one(), witnesses.one(), witnesses.one());
                tickets.push(pool.with(&options).submit(move || drop(one)).unwrap());
                tickets.push(pool.with(&options).spawn_async(async move { drop(other) }).unwrap());
                pool.with(&options).spawn(move || drop(third)).unwrap();
            }
        }
        assert_eq!(pool.metrics().tasks_waiting, 27);
        let report = pool.purge();
        assert_eq!((report.cancelled, report.waiting, report.running, report.futures), (27, 0, 1, 0));
        assert_eq!((report.completed, report.panicked, report.timed_out, report.expired), (0, 0, 0, 0));
        assert_eq!(witnesses.left(), 0);
        assert!(tickets.into_iter().all(|ticket| matches!(ticket.wait(), Err(TaskError::Cancelled))));
        busy.release();
        assert_eq!(pool.submit(|| 1).unwrap().wait().unwrap(), 1, "the pool goes on");
        assert_eq!(pool.metrics().cancelled, 27);
    });
}

#[test]
fn a_purge_cancels_what_tasks_have_submitted() {
    promptly("the purge finds them", || {
        let (pool, witnesses) = (pool(1), Arc::new(Witnesses::default()));
        let (handle, witness) = (pool.handle(), witnesses.one());
        let (go_on, told) = mpsc::channel::<()>();
        let (submitted, submits) = mpsc::channel();
        let ticket = pool.submit(move || {
            for _ in 0..50 {
                let witness = witness.clone();
                handle.spawn(move || drop(witness)).unwrap();
            }
            drop(witness);
            submitted.send(()).unwrap();
            let _ = told.recv();
        });
        submits.recv().unwrap();
        assert_eq!(pool.purge().cancelled, 50);
        assert_eq!(witnesses.left(), 0);
        drop(go_on);
        ticket.unwrap().wait().unwrap();
    });
}

#[test]
fn a_purge_leaves_futures_that_wait_for_something() {
    let (pool, door) = (pool(1), Arc::new(Door::default()));
    let waits = Arc::clone(&door);
    let ticket = pool.spawn_async(async move { waits.pass().await }).unwrap();
    door.until_somebody_waits();
    eventually("it is suspended", || format!("{ticket:?}").contains("idle"));
    let report = pool.purge();
    assert_eq!((report.cancelled, report.futures), (0, 1));
    door.open();
    ticket.wait().unwrap();
}

#[test]
fn a_purge_of_a_paused_pool_reports_that_nobody_runs() {
    let pool = pool(2);
    until_asleep(&pool);
    pool.pause();
    (0..10).for_each(|_| pool.spawn(|| ()).unwrap());
    let report = pool.purge();
    assert_eq!((report.cancelled, report.waiting, report.running), (10, 0, 0));
    assert!(report.is_finished());
}

#[test]
fn a_purge_of_an_idle_pool_finds_nothing() {
    let pool = pool(2);
    until_asleep(&pool);
    let report = pool.purge();
    assert_eq!(report, pool.purge());
    assert_eq!(report.cancelled, 0);
    assert!(report.is_finished());
}

#[test]
fn purges_that_race_with_submitters_and_workers_lose_nothing() {
    promptly("every task is accounted for", || {
        let (pool, ran) = (small_pool(2, 64), Arc::new(AtomicUsize::new(0)));
        let witnesses = Witnesses::default();
        let mut purged = 0;
        thread::scope(|scope| {
            let submitters: Vec<_> = (0..2)
                .map(|_| {
                    scope.spawn(|| {
                        for _ in 0..20_000 {
                            let (ran, witness) = (Arc::clone(&ran), witnesses.one());
                            let task = move || {
                                ran.fetch_add(1, Relaxed);
                                drop(witness);
                            };
                            pool.spawn(task).unwrap();
                        }
                    })
                })
                .collect();
            while !submitters.iter().all(thread::ScopedJoinHandle::is_finished) {
                purged += pool.purge().cancelled;
            }
        });
        let report = pool.drain(Duration::MAX);
        assert!(report.is_finished());
        let metrics = pool.metrics();
        assert_eq!((metrics.completed, metrics.cancelled), (ran.load(Relaxed) as u64, purged));
        assert_eq!(metrics.ended(), 40_000);
        assert_eq!(witnesses.left(), 0);
    });
}

#[test]
fn dropping_a_pool_cancels_thousands_that_wait_and_waits_for_what_runs() {
    promptly("the pool ends", || {
        let (pool, witnesses) = (small_pool(2, 20_000), Witnesses::default());
        let handle = pool.handle();
        let mut busy = Busy::many(&pool, 2);
        let tickets: Vec<_> = (0..1000)
            .map(|_| {
                let witness = witnesses.one();
                pool.submit(move || drop(witness)).unwrap()
            })
            .collect();
        for _ in 0..15_000 {
            let witness = witnesses.one();
            pool.spawn(move || drop(witness)).unwrap();
        }
        let ending = thread::spawn(move || drop(pool));
        eventually("what waits is dropped while the workers are still busy", || witnesses.left() == 0);
        assert!(tickets.into_iter().all(|ticket| matches!(ticket.wait(), Err(TaskError::Cancelled))));
        busy.pop().unwrap().release();
        assert!(!ending.is_finished(), "the other worker is still busy");
        busy.pop().unwrap().release();
        ending.join().unwrap();
        let metrics = handle.metrics();
        assert_eq!((metrics.completed, metrics.cancelled, metrics.tasks_waiting), (2, 16_000, 0));
    });
}

#[test]
fn nothing_is_left_of_a_pool_when_its_last_handle_is_gone() {
    promptly("everything is freed", || {
        let witnesses = Witnesses::default();
        for _ in 0..20 {
            let witness = witnesses.one();
            let on_start = Some(Hook::new(move |_| drop(witness.clone())));
            let pool = start(PoolConfig { workers: 2, on_start, ..PoolConfig::default() });
            let (handle, door) = (pool.handle(), Arc::new(Door::default()));
            let waits = Arc::clone(&door);
            let future = pool.spawn_async(async move { waits.pass().await }).unwrap();
            let hour = TaskOptions { timeout: Some(Duration::from_secs(3600)), ..TaskOptions::default() };
            let busy = Busy::many(&pool, 2);
            let timed = pool.with(&hour).submit(|| ()).unwrap();
            let plain = pool.submit(|| ()).unwrap();
            drop(busy);
            drop(pool);
            assert!(witnesses.left() > 0, "the handle keeps what the pool is made of");
            drop((handle, future, timed, plain, door));
            eventually("the configuration is freed with the pool", || witnesses.left() == 0);
        }
    });
}
